//! Creating, reading, changing and deleting one object.

use serde_json::json;

use crate::harness::objects::{config_map, deployment};
use crate::harness::{Scope, server};

#[test]
fn a_new_object_gets_what_the_server_knows() {
    let scope = Scope::new();
    let answer = scope.post("configmaps", &config_map("one"));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    let made = answer.created();
    let metadata = &made["metadata"];
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("one"), &json!(scope.name)));
    let uid = metadata["uid"].as_str().expect("there is a uid");
    assert_eq!((uid.len(), uid.matches('-').count()), (36, 4));
    assert!(metadata["resourceVersion"].as_str().is_some_and(|version| version.parse::<u64>().is_ok()));
    let time = metadata["creationTimestamp"].as_str().expect("there is a time");
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    assert!(metadata.get("generation").is_none());
    assert_eq!(scope.get("configmaps/one").ok(), made);
}

#[test]
fn what_a_client_sets_of_the_servers_fields_is_ignored() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    map["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    map["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    map["metadata"]["deletionGracePeriodSeconds"] = json!(7);
    map["metadata"]["selfLink"] = json!("/elsewhere");
    let made = scope.post("configmaps", &map).created();
    assert_ne!(made["metadata"]["uid"], map["metadata"]["uid"]);
    assert_ne!(made["metadata"]["creationTimestamp"], map["metadata"]["creationTimestamp"]);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        assert!(made["metadata"].get(field).is_none(), "{field} in {made}");
    }
}

#[test]
fn a_resource_version_has_no_place_in_a_new_object() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["resourceVersion"] = json!("12");
    scope.post("configmaps", &map).refused(500, "", "resourceVersion should not be set on objects to be created");
}

#[test]
fn a_second_object_of_the_same_name_is_refused() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let status = scope.post("configmaps", &config_map("one")).refused(409, "AlreadyExists", "configmaps \"one\" already exists");
    assert_eq!(status["details"], json!({"name": "one", "kind": "configmaps"}));
    scope.post("deployments", &deployment("one", 0)).created();
    let status = scope.post("deployments", &deployment("one", 0)).refused(409, "AlreadyExists", "deployments.apps \"one\" already exists");
    assert_eq!(status["details"], json!({"name": "one", "group": "apps", "kind": "deployments"}));
}

#[test]
fn what_is_not_there() {
    let scope = Scope::new();
    let status = scope.get("configmaps/none").refused(404, "NotFound", "configmaps \"none\" not found");
    assert_eq!(status["details"], json!({"name": "none", "kind": "configmaps"}));
    let status = scope.get("deployments/none").refused(404, "NotFound", "deployments.apps \"none\" not found");
    assert_eq!(status["details"], json!({"name": "none", "group": "apps", "kind": "deployments"}));
    scope.delete("configmaps/none").refused(404, "NotFound", "configmaps \"none\" not found");
    scope.merge("configmaps/none", &json!({"data": {"a": "b"}})).refused(404, "NotFound", "configmaps \"none\" not found");
}

#[test]
fn names_are_made_from_a_prefix() {
    let scope = Scope::new();
    let mut map = config_map("");
    map["metadata"] = json!({"generateName": "made-"});
    let made = scope.post("configmaps", &map).created();
    let name = made["metadata"]["name"].as_str().expect("there is a name");
    assert!(name.starts_with("made-") && name.len() == "made-".len() + 5, "{name}");
    assert!(name["made-".len()..].chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)), "{name}");
    assert_eq!(made["metadata"]["generateName"], "made-");
}

#[test]
fn a_long_prefix_is_cut() {
    let scope = Scope::new();
    let mut map = config_map("");
    map["metadata"] = json!({"generateName": "x".repeat(70)});
    let made = scope.post("configmaps", &map).created();
    assert_eq!(made["metadata"]["name"].as_str().map(str::len), Some(63));
    assert_eq!(made["metadata"]["generateName"], "x".repeat(70));
}

#[test]
fn a_name_beats_a_prefix() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["generateName"] = json!("made-");
    assert_eq!(scope.post("configmaps", &map).created()["metadata"]["name"], "one");
}

#[test]
fn neither_name_nor_prefix() {
    let scope = Scope::new();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let message = "name or generateName is required";
    scope.post("configmaps", &map).invalid(
        "",
        "ConfigMap",
        "",
        &[("FieldValueRequired", "metadata.name", &format!("Required value: {message}"))],
    );
}

#[test]
fn generation_counts_changes_of_the_spec_only() {
    let scope = Scope::new();
    let made = scope.post("deployments", &deployment("one", 0)).created();
    assert_eq!(made["metadata"]["generation"], 1);
    let labelled = scope.merge("deployments/one", &json!({"metadata": {"labels": {"a": "b"}}})).ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = scope.merge("deployments/one", &json!({"spec": {"minReadySeconds": 3}})).ok();
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[test]
fn an_update_that_changes_nothing_keeps_the_version() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let same = scope.put("configmaps/one", &made).ok();
    assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let patched = scope.merge("configmaps/one", &json!({"data": {"key": "value"}})).ok();
    assert_eq!(patched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

#[test]
fn versions_grow_over_all_kinds() {
    let scope = Scope::new();
    let version = |object: &serde_json::Value| object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
    let first = scope.post("configmaps", &config_map("one")).created();
    let second = scope.post("deployments", &deployment("one", 0)).created();
    let third = scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    assert!(version(&first) < version(&second) && version(&second) < version(&third));
}

#[test]
fn identity_and_birth_do_not_change() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let mut map = config_map("one");
    map["data"] = json!({"other": "value"});
    let changed = scope.put("configmaps/one", &map).ok();
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(changed["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    assert_ne!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(changed["data"], json!({"other": "value"}));
}

#[test]
fn another_uid_is_a_conflict() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let mut map = config_map("one");
    map["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let uid = made["metadata"]["uid"].as_str().unwrap_or_default();
    let message = format!(
        "Operation cannot be fulfilled on configmaps \"one\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/{}/one, \
        ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000000, UID in object meta: {uid}",
        scope.name
    );
    scope.put("configmaps/one", &map).refused(409, "Conflict", &message);
}

#[test]
fn an_update_of_what_is_not_there() {
    let scope = Scope::new();
    scope.put("configmaps/none", &config_map("none")).refused(404, "NotFound", "configmaps \"none\" not found");
}

#[test]
fn some_kinds_are_created_by_updates() {
    let scope = Scope::new();
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}});
    scope.put("leases/one", &lease).created();
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "one"}});
    scope.put("endpoints/one", &endpoints).created();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "one"},
        "involvedObject": {"namespace": scope.name}, "type": "Normal", "reason": "Tested",
    });
    scope.put("events/one", &event).created();
}

#[test]
fn names_in_body_and_path_must_agree() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let message = "the name of the object (two) does not match the name on the URL (one)";
    scope.put("configmaps/one", &config_map("two")).refused(400, "BadRequest", message);
}

#[test]
fn namespaces_in_body_and_path_must_agree() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["namespace"] = json!("elsewhere");
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    scope.post("configmaps", &map).refused(400, "BadRequest", message);
    scope.post("configmaps", &config_map("one")).created();
    scope.put("configmaps/one", &map).refused(400, "BadRequest", message);
}

#[test]
fn deleting_gives_a_status_or_the_object() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let status = scope.delete("configmaps/one").ok();
    let details = json!({"name": "one", "kind": "configmaps", "uid": made["metadata"]["uid"]});
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    assert_eq!(status, expected);
    scope.get("configmaps/one").refused(404, "NotFound", "configmaps \"one\" not found");
}

#[test]
fn answers_can_be_yaml_and_pretty() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let yaml = scope.call(http::Method::GET, "configmaps/one").header("accept", "application/yaml").send();
    assert_eq!((yaml.status, yaml.header("content-type")), (200, "application/yaml"));
    assert!(yaml.text.starts_with("apiVersion: v1\ndata:\n  key: value\nkind: ConfigMap\n"), "{}", yaml.text);
    let pretty = scope.get("configmaps/one?pretty=true");
    assert!(pretty.text.starts_with("{\n  \"kind\": \"ConfigMap\",\n"), "{}", pretty.text);
}

#[test]
fn bodies_can_be_yaml() {
    let scope = Scope::new();
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  key: value\n";
    let call = scope.call(http::Method::POST, "configmaps").text(body).header("content-type", "application/yaml");
    assert_eq!(call.send().created()["data"], json!({"key": "value"}));
}

#[test]
fn kind_and_version_may_be_left_out() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &json!({"metadata": {"name": "one"}})).created();
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

#[test]
fn everything_of_all_namespaces() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["labels"] = json!({"only": scope.name});
    scope.post("configmaps", &map).created();
    let list = server().get(format!("/api/v1/configmaps?labelSelector=only={}", scope.name)).ok();
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][0]["metadata"]["namespace"], json!(scope.name));
}
