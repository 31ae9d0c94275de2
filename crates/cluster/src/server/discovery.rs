//! What the server has, for clients to find out.

use serde_json::{Value, json};

use super::resource::{ALL, Resource};
use super::status::{Failure, Result};

/// The version of Kubernetes whose behaviour is followed.
pub(crate) const MINOR: u32 = 37;

/// What is asked and answered without being kept: the group, the name and the kind.
const REVIEWS: (&str, &str, &str) = ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview");

/// `/version`
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR.to_string(), "gitVersion": format!("v1.{MINOR}.0+transom"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The groups with a name, in the order in which they were declared.
fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for resource in ALL.iter().filter(|resource| !resource.group.is_empty()) {
        if !groups.contains(&resource.group) {
            groups.push(resource.group);
        }
    }
    groups.push(REVIEWS.0);
    groups
}

/// `/`
pub(crate) fn paths() -> Value {
    let fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned);
    let grouped = groups().into_iter().flat_map(|group| [format!("/apis/{group}"), format!("/apis/{group}/v1")]);
    let mut paths: Vec<String> = fixed.into_iter().chain(grouped).collect();
    paths.sort();
    json!({"paths": paths})
}

/// `/api`
pub(crate) fn core_versions(address: &str) -> Value {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
}

/// `/apis`
pub(crate) fn group_list() -> Value {
    let groups: Vec<Value> = groups().into_iter().map(describe).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn describe(group: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

/// `/apis/GROUP`
pub(crate) fn group(name: &str) -> Result<Value> {
    if !groups().contains(&name) {
        return Err(Failure::no_such_path());
    }
    let mut group = describe(name);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Ok(group)
}

/// The parts of a resource that have paths of their own: name, kind with group and version, verbs.
fn subresources(resource: &Resource) -> Vec<(&'static str, [&'static str; 3], &'static [&'static str])> {
    let mut parts = Vec::new();
    let own = [resource.group, resource.version, resource.kind];
    if resource.has_status {
        parts.push(("status", own, &["get", "patch", "update"][..]));
    }
    if resource.has_scale {
        parts.push(("scale", ["autoscaling", "v1", "Scale"], &["get", "patch", "update"]));
    }
    match resource.plural {
        "pods" => {
            parts.push(("binding", ["", "v1", "Binding"], &["create"]));
            parts.push(("eviction", ["policy", "v1", "Eviction"], &["create"]));
        }
        "serviceaccounts" => parts.push(("token", ["authentication.k8s.io", "v1", "TokenRequest"], &["create"])),
        "namespaces" => parts.push(("finalize", own, &["update"])),
        _ => {}
    }
    parts
}

/// The resources of the group that keeps nothing.
fn reviews() -> Value {
    let (group, name, kind) = REVIEWS;
    let review = json!({"name": name, "singularName": kind.to_lowercase(), "namespaced": false, "kind": kind, "verbs": ["create"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"), "resources": [review]})
}

/// `/api/v1` and `/apis/GROUP/VERSION`
pub(crate) fn resources(group: &str, version: &str) -> Result<Value> {
    if group == REVIEWS.0 {
        return Ok(reviews());
    }
    let here: Vec<&Resource> = ALL.iter().copied().filter(|resource| resource.group == group && resource.version == version).collect();
    let first = here.first().ok_or_else(Failure::no_such_path)?;
    let mut list = Vec::new();
    for resource in &here {
        let mut main = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced, "kind": resource.kind,
            "verbs": resource.verbs(),
        });
        if !resource.short_names.is_empty() {
            main["shortNames"] = resource.short_names.into();
        }
        if !resource.categories.is_empty() {
            main["categories"] = resource.categories.into();
        }
        list.push(main);
        for (name, [group, version, kind], verbs) in subresources(resource) {
            let mut part = json!({"name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced, "kind": kind, "verbs": verbs});
            if group != resource.group {
                part["group"] = group.into();
                part["version"] = version.into();
            }
            list.push(part);
        }
    }
    let mut described = json!({"kind": "APIResourceList", "groupVersion": first.api_version(), "resources": list});
    // The core group is older than this field.
    if !group.is_empty() {
        described["apiVersion"] = "v1".into();
    }
    Ok(described)
}

/// Everything of `/api` or of `/apis` in one document.
pub(crate) fn aggregated(is_core: bool, version: &str) -> Value {
    let names = if is_core { vec![""] } else { groups() };
    let items: Vec<Value> = names.into_iter().map(aggregated_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items})
}

fn aggregated_group(group: &str) -> Value {
    let mut resources: Vec<Value> =
        ALL.iter().filter(|resource| resource.group == group).map(|resource| aggregated_resource(resource)).collect();
    if group == REVIEWS.0 {
        let (_, name, kind) = REVIEWS;
        let own = json!({"group": "", "version": "", "kind": kind});
        resources.push(json!({
            "resource": name, "responseKind": own, "scope": "Cluster", "singularResource": kind.to_lowercase(), "verbs": ["create"],
        }));
    }
    let mut metadata = json!({"creationTimestamp": null});
    if !group.is_empty() {
        metadata["name"] = group.into();
    }
    json!({"metadata": metadata, "versions": [{"version": "v1", "freshness": "Current", "resources": resources}]})
}

fn aggregated_resource(resource: &Resource) -> Value {
    // What is of the group and version that it stands in does not repeat them.
    let kind = |[group, version, kind]: [&str; 3]| match group == resource.group && version == resource.version {
        true => json!({"group": "", "version": "", "kind": kind}),
        false => json!({"group": group, "version": version, "kind": kind}),
    };
    let parts: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(name, own, verbs)| json!({"subresource": name, "responseKind": kind(own), "verbs": verbs}))
        .collect();
    let mut described = json!({
        "resource": resource.plural, "responseKind": kind([resource.group, resource.version, resource.kind]),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "singularResource": resource.singular,
        "verbs": resource.verbs(),
    });
    for (key, names) in [("shortNames", resource.short_names), ("categories", resource.categories)] {
        if !names.is_empty() {
            described[key] = names.into();
        }
    }
    if !parts.is_empty() {
        described["subresources"] = parts.into();
    }
    described
}
