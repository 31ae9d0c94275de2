//! Deleting: preconditions, finalizers, grace, collections, and what happens to dependents.

use http::Method;
use serde_json::{Value, json};

use crate::harness::objects::{config_map, labelled, pod};
use crate::harness::{Scope, eventually};

/// A config map that is owned by another.
fn owned(name: &str, owner: &Value, block: bool) -> Value {
    let mut map = config_map(name);
    map["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block,
    }]);
    map
}

fn family() -> (Scope, Value) {
    let scope = Scope::new();
    let owner = scope.post("configmaps", &config_map("owner")).created();
    scope.post("configmaps", &owned("child", &owner, true)).created();
    (scope, owner)
}

fn is_gone(scope: &Scope, resource: &str) -> bool {
    scope.get(resource).status == 404
}

#[test]
fn a_uid_as_precondition() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let other = "00000000-0000-0000-0000-000000000000";
    let answer = scope.delete_with("configmaps/one", &json!({"preconditions": {"uid": other}}));
    let uid = made["metadata"]["uid"].as_str().unwrap_or_default();
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"one\": the UID in the precondition ({other}) does not match the UID in record ({uid}). \
        The object might have been deleted and then recreated"
    );
    answer.refused(409, "Conflict", &message);
    scope.delete_with("configmaps/one", &json!({"preconditions": {"uid": uid}})).ok();
}

#[test]
fn a_version_as_precondition() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let answer = scope.delete_with("configmaps/one", &json!({"preconditions": {"resourceVersion": "1"}}));
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"one\": the ResourceVersion in the precondition (1) does not match the ResourceVersion \
        in record ({version}). The object might have been modified"
    );
    answer.refused(409, "Conflict", &message);
    scope.delete_with("configmaps/one", &json!({"preconditions": {"resourceVersion": version}})).ok();
}

#[test]
fn a_finalizer_keeps_an_object() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["finalizers"] = json!(["test.transom/keep"]);
    scope.post("configmaps", &map).created();
    let deleted = scope.delete("configmaps/one").ok();
    assert_eq!(deleted["kind"], "ConfigMap");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    let kept = scope.get("configmaps/one").ok();
    assert_eq!(kept["metadata"]["deletionTimestamp"], deleted["metadata"]["deletionTimestamp"]);
    // Once more changes nothing.
    let again = scope.delete("configmaps/one").ok();
    assert_eq!(again["metadata"]["resourceVersion"], kept["metadata"]["resourceVersion"]);
    let last = scope.merge("configmaps/one", &json!({"metadata": {"finalizers": null}})).ok();
    assert!(last["metadata"].get("finalizers").is_none());
    assert!(is_gone(&scope, "configmaps/one"));
}

#[test]
fn what_is_being_deleted_takes_no_new_finalizers() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["finalizers"] = json!(["test.transom/keep"]);
    scope.post("configmaps", &map).created();
    scope.delete("configmaps/one").ok();
    let answer = scope.merge("configmaps/one", &json!({"metadata": {"finalizers": ["test.transom/keep", "test.transom/more"]}}));
    let message =
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"test.transom/more\"}";
    answer.invalid("", "ConfigMap", "one", &[("FieldValueForbidden", "metadata.finalizers", message)]);
    let changed = scope.merge("configmaps/one", &json!({"data": {"still": "changes"}})).ok();
    assert_eq!(changed["data"]["still"], "changes");
}

#[test]
fn a_watcher_sees_a_deletion_that_waits() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["finalizers"] = json!(["test.transom/keep"]);
    let made = scope.post("configmaps", &map).created();
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut events = scope.call(Method::GET, &format!("configmaps?watch=true&resourceVersion={version}")).watch();
    scope.delete("configmaps/one").ok();
    assert!(events.expect("MODIFIED", "one")["metadata"]["deletionTimestamp"].is_string());
    scope.json_patch("configmaps/one", &json!([{"op": "remove", "path": "/metadata/finalizers"}])).ok();
    events.expect("DELETED", "one");
}

#[test]
fn finalizers_are_named_like_labels() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["finalizers"] = json!(["keep"]);
    let causes = [(
        "FieldValueInvalid",
        "metadata.finalizers[0]",
        "Invalid value: \"keep\": name is neither a standard finalizer name nor is it fully qualified",
    )];
    scope.post("configmaps", &map).invalid("", "ConfigMap", "one", &causes);
}

#[test]
fn a_pod_without_a_node_goes_at_once() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let deleted = scope.delete("pods/one").ok();
    assert_eq!(deleted["kind"], "Pod");
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(is_gone(&scope, "pods/one"));
}

#[test]
fn a_pod_on_a_node_is_given_time() {
    let scope = Scope::new();
    let mut bound = pod("one");
    bound["spec"]["nodeName"] = json!("here");
    scope.post("pods", &bound).created();
    let deleted = scope.delete("pods/one").ok();
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(scope.get("pods/one").ok()["status"]["phase"], "Pending");
    let shorter = scope.delete_with("pods/one", &json!({"gracePeriodSeconds": 5})).ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = scope.delete_with("pods/one", &json!({"gracePeriodSeconds": 50})).ok();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    scope.delete_with("pods/one", &json!({"gracePeriodSeconds": 0})).ok();
    assert!(is_gone(&scope, "pods/one"));
}

#[test]
fn grace_as_a_parameter() {
    let scope = Scope::new();
    let mut bound = pod("one");
    bound["spec"]["nodeName"] = json!("here");
    bound["spec"]["terminationGracePeriodSeconds"] = json!(7);
    scope.post("pods", &bound).created();
    assert_eq!(scope.delete("pods/one").ok()["metadata"]["deletionGracePeriodSeconds"], 7);
    scope.delete("pods/one?gracePeriodSeconds=0").ok();
    assert!(is_gone(&scope, "pods/one"));
}

#[test]
fn a_pod_that_ended_needs_no_time() {
    let scope = Scope::new();
    let mut bound = pod("one");
    bound["spec"]["nodeName"] = json!("here");
    scope.post("pods", &bound).created();
    scope.merge("pods/one/status", &json!({"status": {"phase": "Succeeded"}})).ok();
    scope.delete("pods/one").ok();
    assert!(is_gone(&scope, "pods/one"));
}

#[test]
fn grace_below_zero_is_refused_or_one() {
    let scope = Scope::new();
    let mut bound = pod("one");
    bound["spec"]["nodeName"] = json!("here");
    scope.post("pods", &bound).created();
    let deleted = scope.delete_with("pods/one", &json!({"gracePeriodSeconds": -1})).ok();
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 1);
}

#[test]
fn all_of_a_collection() {
    let scope = Scope::new();
    for (name, value) in [("a", "yes"), ("b", "yes"), ("c", "no")] {
        scope.post("configmaps", &labelled(name, "go", value)).created();
    }
    let list = scope.delete("configmaps?labelSelector=go%3Dyes").ok();
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(scope.names("configmaps"), ["c"]);
    scope.delete("configmaps?fieldSelector=metadata.name%3Dc").ok();
    assert_eq!(scope.names("configmaps"), Vec::<String>::new());
    let empty = scope.delete("configmaps").ok();
    assert_eq!(empty["items"], json!([]));
}

#[test]
fn services_can_be_deleted_as_a_collection() {
    let scope = Scope::new();
    scope.post("services", &crate::harness::objects::service("one")).created();
    scope.delete("services").ok();
    assert!(is_gone(&scope, "services/one"));
}

#[test]
fn namespaces_cannot_be_deleted_as_a_collection() {
    let answer = crate::harness::server().delete("/api/v1/namespaces?labelSelector=no%3Dsuch");
    let status = answer.refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    assert_eq!(status["details"], json!({}));
}

#[test]
fn dependents_go_after_their_owner() {
    let (scope, _) = family();
    let status = scope.delete("configmaps/owner").ok();
    assert_eq!(status["status"], "Success");
    eventually("the child goes", || is_gone(&scope, "configmaps/child").then_some(()));
}

#[test]
fn dependents_go_before_their_owner() {
    let (scope, owner) = family();
    let mut stubborn = owned("stubborn", &owner, true);
    stubborn["metadata"]["finalizers"] = json!(["test.transom/keep"]);
    scope.post("configmaps", &stubborn).created();
    let deleted = scope.delete_with("configmaps/owner", &json!({"propagationPolicy": "Foreground"})).ok();
    assert_eq!(deleted["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    eventually("the child goes", || is_gone(&scope, "configmaps/child").then_some(()));
    eventually("the other child is deleted", || {
        scope.get("configmaps/stubborn").body["metadata"]["deletionTimestamp"].is_string().then_some(())
    });
    assert!(!is_gone(&scope, "configmaps/owner"));
    scope.merge("configmaps/stubborn", &json!({"metadata": {"finalizers": null}})).ok();
    eventually("the owner goes", || is_gone(&scope, "configmaps/owner").then_some(()));
}

#[test]
fn dependents_that_do_not_block_are_not_waited_for() {
    let scope = Scope::new();
    let owner = scope.post("configmaps", &config_map("owner")).created();
    let mut stubborn = owned("stubborn", &owner, false);
    stubborn["metadata"]["finalizers"] = json!(["test.transom/keep"]);
    scope.post("configmaps", &stubborn).created();
    scope.delete_with("configmaps/owner", &json!({"propagationPolicy": "Foreground"})).ok();
    eventually("the owner goes", || is_gone(&scope, "configmaps/owner").then_some(()));
    eventually("the child is deleted", || scope.get("configmaps/stubborn").body["metadata"]["deletionTimestamp"].is_string().then_some(()));
}

#[test]
fn orphans_stay() {
    let (scope, _) = family();
    let deleted = scope.delete("configmaps/owner?propagationPolicy=Orphan").ok();
    assert_eq!(deleted["metadata"]["finalizers"], json!(["orphan"]));
    eventually("the owner goes", || is_gone(&scope, "configmaps/owner").then_some(()));
    let child = scope.get("configmaps/child").ok();
    assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
    assert!(child["metadata"].get("deletionTimestamp").is_none());
}

#[test]
fn the_old_word_for_orphans() {
    let (scope, _) = family();
    scope.delete_with("configmaps/owner", &json!({"orphanDependents": true})).ok();
    eventually("the owner goes", || is_gone(&scope, "configmaps/owner").then_some(()));
    assert!(!is_gone(&scope, "configmaps/child"));
}

#[test]
fn a_dependent_with_another_owner_stays() {
    let (scope, owner) = family();
    let other = scope.post("configmaps", &config_map("other")).created();
    let mut child = owned("shared", &owner, false);
    let second = owned("shared", &other, false)["metadata"]["ownerReferences"][0].clone();
    child["metadata"]["ownerReferences"].as_array_mut().expect("a list").push(second);
    scope.post("configmaps", &child).created();
    scope.delete("configmaps/owner").ok();
    let references = eventually("one reference is left", || {
        let references = scope.get("configmaps/shared").ok()["metadata"]["ownerReferences"].clone();
        (references.as_array().map(Vec::len) == Some(1)).then_some(references)
    });
    assert_eq!(references[0]["name"], "other");
}

#[test]
fn an_owner_that_never_was() {
    let scope = Scope::new();
    let ghost = json!({"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000001"}});
    scope.post("configmaps", &owned("child", &ghost, false)).created();
    eventually("the child goes", || is_gone(&scope, "configmaps/child").then_some(()));
}

#[test]
fn owner_references_are_validated() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["ownerReferences"] = json!([{"apiVersion": "", "kind": "", "name": "", "uid": ""}]);
    let field = |name: &str| format!("metadata.ownerReferences[0].{name}");
    let fields = ["apiVersion", "kind", "name", "uid"].map(field);
    let causes = fields.each_ref().map(|field| ("FieldValueRequired", field.as_str(), "Required value: must not be empty"));
    scope.post("configmaps", &map).invalid("", "ConfigMap", "one", &causes);
}

#[test]
fn one_controller_at_most() {
    let scope = Scope::new();
    let mut map = config_map("one");
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true});
    map["metadata"]["ownerReferences"] = json!([owner("a"), owner("b")]);
    let status = scope.post("configmaps", &map).expect(422);
    let message = status["details"]["causes"][0]["message"].as_str().unwrap_or_default();
    assert!(
        message
            .ends_with("Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/a and ConfigMap/b"),
        "{message}"
    );
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.ownerReferences");
}

#[test]
fn policies_that_do_not_exist() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let status = scope.delete_with("configmaps/one", &json!({"propagationPolicy": "Sometimes"})).expect(422);
    let message = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sometimes\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    assert_eq!(status["message"], message);
    let status = scope.delete_with("configmaps/one", &json!({"propagationPolicy": "Orphan", "orphanDependents": true})).expect(422);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("orphanDependents and deletionPropagation cannot be both set"), "{message}");
}

#[test]
fn options_that_are_no_options() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let status = scope.delete_with("configmaps/one", &json!({"kind": "ConfigMap", "apiVersion": "v1"})).expect(400);
    assert_eq!(status["reason"], "BadRequest");
    let named = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    scope.delete_with("configmaps/one", &named).ok();
}
