//! Namespaces: their life, and what is in them.

use serde_json::json;

use crate::harness::objects::config_map;
use crate::harness::{Scope, eventually, server};

#[test]
fn a_namespace_is_active_and_says_its_name() {
    let scope = Scope::new();
    let namespace = server().get(format!("/api/v1/namespaces/{}", scope.name)).ok();
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], json!(scope.name));
}

#[test]
fn the_ones_that_are_always_there() {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        eventually(name, || (server().get(format!("/api/v1/namespaces/{name}")).status == 200).then_some(()));
    }
}

#[test]
fn a_namespace_that_is_missing() {
    let answer = server().post("/api/v1/namespaces/no-such-namespace/configmaps", &config_map("one"));
    let status = answer.refused(404, "NotFound", "namespaces \"no-such-namespace\" not found");
    assert_eq!(status["details"], json!({"name": "no-such-namespace", "kind": "namespaces"}));
}

#[test]
fn the_end_of_a_namespace_is_the_end_of_what_is_in_it() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    scope.post("services", &crate::harness::objects::service("one")).created();
    let path = format!("/api/v1/namespaces/{}", scope.name);
    let deleted = server().delete(&path).ok();
    assert_eq!(deleted["kind"], "Namespace");
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    eventually("the namespace goes", || (server().get(&path).status == 404).then_some(()));
    assert_eq!(scope.get("configmaps/one").status, 404);
    assert_eq!(scope.get("services/one").status, 404);
}

#[test]
fn nothing_is_created_in_a_namespace_that_ends() {
    let scope = Scope::new();
    let mut kept = config_map("kept");
    kept["metadata"]["finalizers"] = json!(["test.transom/keep"]);
    scope.post("configmaps", &kept).created();
    let path = format!("/api/v1/namespaces/{}", scope.name);
    server().delete(&path).ok();
    let answer = scope.post("configmaps", &config_map("late"));
    let message = format!(
        "configmaps \"late\" is forbidden: unable to create new content in namespace {} because it is being terminated",
        scope.name
    );
    let status = answer.refused(403, "Forbidden", &message);
    let cause = json!({"reason": "NamespaceTerminating", "message": format!("namespace {} is being terminated", scope.name), "field": "metadata.namespace"});
    assert_eq!(status["details"], json!({"name": "late", "kind": "configmaps", "causes": [cause]}));
    // What is there can still be changed.
    eventually("what is kept is being deleted", || {
        scope.get("configmaps/kept").body["metadata"]["deletionTimestamp"].is_string().then_some(())
    });
    scope.merge("configmaps/kept", &json!({"data": {"a": "b"}})).ok();
    let conditions = eventually("the namespace says what it waits for", || {
        let namespace = server().get(&path).ok();
        let conditions = namespace["status"]["conditions"].as_array()?.clone();
        conditions
            .iter()
            .any(|condition| condition["type"] == "NamespaceFinalizersRemaining" && condition["status"] == "True")
            .then_some(conditions)
    });
    assert!(conditions.iter().any(|condition| condition["type"] == "NamespaceContentRemaining"));
    scope.merge("configmaps/kept", &json!({"metadata": {"finalizers": null}})).ok();
    eventually("the namespace goes", || (server().get(&path).status == 404).then_some(()));
}

#[test]
fn the_default_namespace_stays() {
    let answer = server().delete("/api/v1/namespaces/default");
    answer.refused(403, "Forbidden", "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

#[test]
fn names_of_namespaces() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "with.dot"}});
    let message = "Invalid value: \"with.dot\": must not contain dots";
    server().post("/api/v1/namespaces", &namespace).invalid(
        "",
        "Namespace",
        "with.dot",
        &[("FieldValueInvalid", "metadata.name", message)],
    );
}

#[test]
fn every_namespace_gets_a_service_account() {
    let scope = Scope::new();
    let account = eventually("the account is made", || {
        let answer = scope.get("serviceaccounts/default");
        (answer.status == 200).then_some(answer.body)
    });
    assert_eq!(account["kind"], "ServiceAccount");
}

#[test]
fn a_namespace_keeps_its_label() {
    let scope = Scope::new();
    let path = format!("/api/v1/namespaces/{}", scope.name);
    let changed = server().merge(&path, &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}})).ok();
    assert_eq!(changed["metadata"]["labels"]["kubernetes.io/metadata.name"], json!(scope.name));
}
