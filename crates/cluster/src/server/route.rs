//! Where a path leads.

use super::query::decode;
use super::resource::{self, Resource};

/// An object, or the objects of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: &'static Resource,
    /// None is all of them.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// What a path is about.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// `/healthz` and its relatives.
    Health,
    Version,
    /// `/`: the paths there are.
    Paths,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    Resources(String, String),
    OpenApiV2,
    /// `/openapi/v3`, or what follows it.
    OpenApiV3(String),
    Object(Target),
    /// The older paths by which objects are watched.
    Watch(Target),
    /// Where clients ask what they may do.
    AccessReview,
    /// A group and version that are there, and something in them that is not.
    Nowhere,
    NoPage,
}

/// Reads a path.
pub(crate) fn route(path: &str) -> Route {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false)).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] => Route::Paths,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3", rest @ ..] => Route::OpenApiV3(rest.join("/")),
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group, ..] if !is_known(group, "v1") => Route::NoPage,
        ["api", version, ..] if !is_known("", version) => Route::Nowhere,
        ["apis", group, version, ..] if !is_known(group, version) => Route::Nowhere,
        ["api", version] => Route::Resources(String::new(), (*version).to_owned()),
        ["apis", group] => Route::Group((*group).to_owned()),
        ["apis", group, version] => Route::Resources((*group).to_owned(), (*version).to_owned()),
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] => Route::AccessReview,
        ["api", version, "watch", rest @ ..] => watched(object("", version, rest)),
        ["apis", group, version, "watch", rest @ ..] => watched(object(group, version, rest)),
        ["api", version, rest @ ..] => object("", version, rest),
        ["apis", group, version, rest @ ..] => object(group, version, rest),
        _ => Route::NoPage,
    }
}

fn watched(route: Route) -> Route {
    match route {
        Route::Object(target) if target.subresource.is_none() => Route::Watch(target),
        _ => Route::Nowhere,
    }
}

fn is_known(group: &str, version: &str) -> bool {
    (group, version) == ("authorization.k8s.io", "v1")
        || resource::ALL.iter().any(|resource| resource.group == group && resource.version == version)
}

fn object(group: &str, version: &str, parts: &[&str]) -> Route {
    let own = |text: &&str| (*text).to_owned();
    let target = |plural: &str, namespace: Option<&str>, rest: &[&str]| {
        let resource = resource::find(group, version, plural).filter(|_| rest.len() <= 2);
        // A resource with namespaces can be listed across them, and one without is in none.
        let fits = |resource: &&Resource| match namespace {
            Some(_) => resource.namespaced,
            None => !resource.namespaced || rest.is_empty(),
        };
        resource.filter(fits).map_or(Route::Nowhere, |resource| {
            Route::Object(Target {
                resource,
                namespace: namespace.map(str::to_owned),
                name: rest.first().map(own),
                subresource: rest.get(1).map(own),
            })
        })
    };
    match parts {
        ["namespaces", _, "status" | "finalize"] => target("namespaces", None, &parts[1..]),
        ["namespaces", namespace, plural, rest @ ..] => target(plural, Some(namespace), rest),
        [plural, rest @ ..] => target(plural, None, rest),
        [] => Route::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        match route(path) {
            Route::Object(Target { resource, namespace, name, subresource }) => {
                let parts = [namespace, name, subresource].map(|part| part.unwrap_or("-".into()));
                format!("{} {}", resource.plural, parts.join(" "))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_objects() {
        assert_eq!(shown("/api/v1/namespaces"), "namespaces - - -");
        assert_eq!(shown("/api/v1/namespaces/a"), "namespaces - a -");
        assert_eq!(shown("/api/v1/namespaces/a/status"), "namespaces - a status");
        assert_eq!(shown("/api/v1/namespaces/a/pods"), "pods a - -");
        assert_eq!(shown("/api/v1/pods"), "pods - - -");
        assert_eq!(shown("/apis/apps/v1/namespaces/a/deployments/x/scale"), "deployments a x scale");
        assert_eq!(shown("/api/v1/pods/x"), "Nowhere");
        assert_eq!(shown("/api/v1/namespaces/a/nodes"), "Nowhere");
        assert_eq!(shown("/api/v1/nodes/n%2F1"), "nodes - n/1 -");
        assert_eq!(shown("/apis/apps/v1beta1/deployments"), "Nowhere");
        assert_eq!(shown("/apis/none/v1/deployments"), "NoPage");
        assert!(matches!(route("/api/v1/watch/namespaces/a/pods/x"), Route::Watch(target) if target.name.as_deref() == Some("x")));
    }
}
