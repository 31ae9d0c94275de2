//! What a server says it has.

use http::Method;
use serde_json::{Value, json};

use crate::harness::server;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The entry of a resource in a list of resources, without the hash that is nobody's business.
fn resource(list: &Value, name: &str) -> Value {
    let found = list["resources"].as_array().into_iter().flatten().find(|resource| resource["name"] == name);
    let mut found = found.unwrap_or_else(|| panic!("{name} is not in {list}")).clone();
    found.as_object_mut().expect("a resource is an object").remove("storageVersionHash");
    found
}

#[test]
fn version_has_all_fields() {
    let version = server().get("/version").ok();
    for field in ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(version[field].is_string(), "{field} in {version}");
    }
    assert_eq!(version["major"], "1");
}

#[test]
fn health_is_a_word() {
    for path in ["/healthz", "/readyz", "/livez"] {
        let answer = server().get(path);
        assert_eq!((answer.status, answer.text.as_str()), (200, "ok"), "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
}

#[test]
fn legacy_versions() {
    let versions = server().get("/api").ok();
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
    assert_eq!(versions["serverAddressByClientCIDRs"][0]["clientCIDR"], "0.0.0.0/0");
}

#[test]
fn groups_name_their_versions() {
    let list = server().get("/apis").ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    for name in ["apps", "coordination.k8s.io", "discovery.k8s.io", "networking.k8s.io"] {
        let group = list["groups"].as_array().into_iter().flatten().find(|group| group["name"] == name);
        let group = group.unwrap_or_else(|| panic!("{name} is not in {list}"));
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        assert_eq!(group["preferredVersion"], version);
        assert!(group["versions"].as_array().is_some_and(|versions| versions.contains(&version)), "{group}");
    }
}

#[test]
fn a_group_by_itself() {
    let expected = json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
        "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
    });
    assert_eq!(server().get("/apis/apps").ok(), expected);
}

#[test]
fn core_resources() {
    let list = server().get("/api/v1").ok();
    assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    assert!(list.get("apiVersion").is_none());
    let all = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let rows = [
        ("configmaps", "configmap", true, "ConfigMap", Some("cm")),
        ("endpoints", "endpoints", true, "Endpoints", Some("ep")),
        ("events", "event", true, "Event", Some("ev")),
        ("nodes", "node", false, "Node", Some("no")),
        ("secrets", "secret", true, "Secret", None),
        ("serviceaccounts", "serviceaccount", true, "ServiceAccount", Some("sa")),
        ("services", "service", true, "Service", Some("svc")),
    ];
    for (name, singular, namespaced, kind, short) in rows {
        let mut expected = json!({"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": all});
        if let Some(short) = short {
            expected["shortNames"] = json!([short]);
        }
        let mut seen = resource(&list, name);
        seen.as_object_mut().expect("a resource is an object").remove("categories");
        assert_eq!(seen, expected);
    }
    assert_eq!(resource(&list, "services")["categories"], json!(["all"]));
}

#[test]
fn pods_and_namespaces_among_the_core_resources() {
    let list = server().get("/api/v1").ok();
    let pods = resource(&list, "pods");
    assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
    let status = json!({"name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get", "patch", "update"]});
    assert_eq!(resource(&list, "pods/status"), status);
    let namespaces = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    assert_eq!(resource(&list, "namespaces")["verbs"], namespaces);
    let finalize =
        json!({"name": "namespaces/finalize", "singularName": "", "namespaced": false, "kind": "Namespace", "verbs": ["update"]});
    assert_eq!(resource(&list, "namespaces/finalize"), finalize);
}

#[test]
fn apps_have_a_scale_of_another_group() {
    let list = server().get("/apis/apps/v1").ok();
    assert_eq!((&list["apiVersion"], &list["groupVersion"]), (&json!("v1"), &json!("apps/v1")));
    for (name, kind, short) in [("deployments", "Deployment", "deploy"), ("replicasets", "ReplicaSet", "rs")] {
        let entry = resource(&list, name);
        assert_eq!((&entry["kind"], &entry["shortNames"], &entry["categories"]), (&json!(kind), &json!([short]), &json!(["all"])));
        let scale = json!({
            "name": format!("{name}/scale"), "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
            "kind": "Scale", "verbs": ["get", "patch", "update"],
        });
        assert_eq!(resource(&list, &format!("{name}/scale")), scale);
    }
}

#[test]
fn aggregated_core() {
    let answer = server().call(Method::GET, "/api").header("accept", AGGREGATED).send();
    assert_eq!(answer.header("content-type"), AGGREGATED);
    assert!(answer.header("vary").contains("Accept"), "{:?}", answer.headers);
    let list = answer.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
    let version = &list["items"][0]["versions"][0];
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    let maps = version["resources"].as_array().into_iter().flatten().find(|resource| resource["resource"] == "configmaps");
    let expected = json!({
        "resource": "configmaps", "responseKind": {"group": "", "version": "", "kind": "ConfigMap"}, "scope": "Namespaced",
        "singularResource": "configmap", "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["cm"],
    });
    assert_eq!(maps, Some(&expected));
}

#[test]
fn aggregated_groups() {
    let list = server().call(Method::GET, "/apis").header("accept", AGGREGATED).send().ok();
    let apps = list["items"].as_array().into_iter().flatten().find(|group| group["metadata"]["name"] == "apps").expect("apps is there");
    let version = &apps["versions"][0];
    assert_eq!(version["version"], "v1");
    let deployments = version["resources"].as_array().into_iter().flatten().find(|resource| resource["resource"] == "deployments");
    let subresources = &deployments.expect("deployments are there")["subresources"];
    let scale = json!({
        "subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    });
    assert!(subresources.as_array().is_some_and(|all| all.contains(&scale)), "{subresources}");
}

#[test]
fn a_client_that_knows_the_new_form_gets_it() {
    let accept = "application/json, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let list = server().call(Method::GET, "/apis").header("accept", accept).send().ok();
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
}

#[test]
fn the_root_lists_paths() {
    let paths = server().get("/").ok();
    let paths = paths["paths"].as_array().expect("there are paths");
    for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    {
        assert!(paths.contains(&json!(path)), "{path}");
    }
}

#[test]
fn unknown_groups_and_versions_are_no_pages() {
    for path in ["/apis/nosuch.test", "/apis/nosuch.test/v1", "/nosuch", "/apis/nosuch.test/v1/things"] {
        let answer = server().get(path);
        assert_eq!((answer.status, answer.text.as_str()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
}

#[test]
fn unknown_versions_of_known_groups_are_no_resources() {
    for path in ["/apis/apps/v9", "/api/v9", "/api/v1/things", "/apis/apps/v1/things", "/apis/apps/v1/namespaces/default/things/one"] {
        let status = server().get(path).refused(404, "NotFound", "the server could not find the requested resource");
        assert_eq!(status["details"], json!({}), "{path}");
    }
}

#[test]
fn openapi_names_what_patches_need() {
    let answer = server().get("/openapi/v3");
    let paths = answer.ok();
    assert!(paths["paths"]["api/v1"]["serverRelativeURL"].as_str().is_some_and(|url| url.starts_with("/openapi/v3/api/v1?hash=")));
    let core = server().get("/openapi/v3/api/v1").ok();
    let schemas = &core["components"]["schemas"];
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(
        (&containers["x-kubernetes-patch-merge-key"], &containers["x-kubernetes-patch-strategy"]),
        (&json!("name"), &json!("merge"))
    );
}
