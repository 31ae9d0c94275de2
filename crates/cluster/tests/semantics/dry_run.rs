//! Requests that are only rehearsed.

use serde_json::json;

use crate::harness::Scope;
use crate::harness::objects::{config_map, deployment, service};

#[test]
fn nothing_is_created() {
    let scope = Scope::new();
    let made = scope.post("configmaps?dryRun=All", &config_map("one")).created();
    assert!(made["metadata"]["uid"].is_string());
    assert!(made["metadata"].get("resourceVersion").is_none());
    assert_eq!(scope.get("configmaps/one").status, 404);
}

#[test]
fn nothing_is_changed() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let changed = scope.merge("configmaps/one?dryRun=All", &json!({"data": {"key": "other"}})).ok();
    assert_eq!(changed["data"]["key"], "other");
    assert_eq!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let mut put = made.clone();
    put["data"]["key"] = json!("another");
    assert_eq!(scope.put("configmaps/one?dryRun=All", &put).ok()["data"]["key"], "another");
    assert_eq!(scope.get("configmaps/one").ok(), made);
}

#[test]
fn nothing_is_deleted() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    assert_eq!(scope.delete("configmaps/one?dryRun=All").ok()["status"], "Success");
    assert_eq!(scope.delete_with("configmaps/one", &json!({"dryRun": ["All"]})).ok()["status"], "Success");
    assert_eq!(scope.delete("configmaps?dryRun=All").ok()["items"].as_array().map(Vec::len), Some(1));
    scope.get("configmaps/one").ok();
}

#[test]
fn a_rehearsal_meets_the_same_refusals() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    scope.post("configmaps?dryRun=All", &config_map("one")).refused(409, "AlreadyExists", "configmaps \"one\" already exists");
    let answer = scope.merge("configmaps/one?dryRun=All", &json!({"metadata": {"resourceVersion": "1"}}));
    assert_eq!(answer.status, 409);
    scope.delete("configmaps/none?dryRun=All").refused(404, "NotFound", "configmaps \"none\" not found");
    let mut bad = config_map("Bad");
    bad["data"] = json!({});
    assert_eq!(scope.post("configmaps?dryRun=All", &bad).status, 422);
}

#[test]
fn a_rehearsal_is_complete() {
    let scope = Scope::new();
    let made = scope.post("deployments?dryRun=All", &deployment("one", 1)).created();
    assert_eq!((&made["metadata"]["generation"], &made["spec"]["strategy"]["type"]), (&json!(1), &json!("RollingUpdate")));
    let mut named = config_map("");
    named["metadata"] = json!({"generateName": "made-"});
    let made = scope.post("configmaps?dryRun=All", &named).created();
    assert!(made["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("made-")));
}

#[test]
fn an_address_is_not_taken() {
    let scope = Scope::new();
    // Where an address would be, a rehearsal has the address of the whole range.
    let made = scope.post("services?dryRun=All", &service("one")).created();
    assert_eq!(made["spec"]["clusterIP"], "10.96.0.0");
    let mut named = service("one");
    named["spec"]["clusterIP"] = json!("10.96.0.200");
    scope.post("services?dryRun=All", &named).created();
    scope.post("services", &named).created();
    scope.delete("services/one").ok();
}

#[test]
fn only_all_can_be_rehearsed() {
    let scope = Scope::new();
    let status = scope.post("configmaps?dryRun=Some", &config_map("one")).expect(422);
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    assert_eq!(status["message"], message);
    let details = json!({
        "group": "meta.k8s.io", "kind": "CreateOptions",
        "causes": [{"reason": "FieldValueNotSupported", "message": "Unsupported value: [\"Some\"]: supported values: \"All\"", "field": "dryRun"}],
    });
    assert_eq!(status["details"], details);
}
