//! Status and scale.

use http::Method;
use serde_json::json;

use crate::harness::objects::{config_map, deployment, pod, replica_set};
use crate::harness::{Scope, server};

#[test]
fn an_update_leaves_the_status_alone() {
    let scope = Scope::new();
    let mut made = scope.post("pods", &pod("one")).created();
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    made["status"]["phase"] = json!("Running");
    made["metadata"]["labels"]["more"] = json!("yes");
    let changed = scope.put("pods/one", &made).ok();
    assert_eq!(changed["status"]["phase"], "Pending");
    assert_eq!(changed["metadata"]["labels"]["more"], "yes");
}

#[test]
fn an_update_of_the_status_leaves_the_rest_alone() {
    let scope = Scope::new();
    let mut made = scope.post("pods", &pod("one")).created();
    made["status"]["phase"] = json!("Running");
    made["spec"]["containers"][0]["image"] = json!("registry.test/other");
    made["metadata"]["labels"]["more"] = json!("yes");
    let changed = scope.put("pods/one/status", &made).ok();
    assert_eq!(changed["status"]["phase"], "Running");
    assert_eq!(changed["spec"]["containers"][0]["image"], "registry.test/main:1");
    assert_eq!(changed["metadata"]["labels"]["more"], "yes", "labels are the exception");
    assert_eq!(scope.get("pods/one/status").ok(), changed);
}

#[test]
fn a_new_object_has_no_status_of_its_makers() {
    let scope = Scope::new();
    let mut made = pod("one");
    made["status"] = json!({"phase": "Running", "podIP": "192.0.2.1"});
    let made = scope.post("pods", &made).created();
    assert_eq!(made["status"]["phase"], "Pending");
    assert!(made["status"].get("podIP").is_none());
}

#[test]
fn addresses_of_a_pod_follow_each_other() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let changed = scope.merge("pods/one/status", &json!({"status": {"podIP": "192.0.2.1"}})).ok();
    assert_eq!(changed["status"]["podIPs"], json!([{"ip": "192.0.2.1"}]));
    let changed = scope
        .merge("pods/one/status", &json!({"status": {"podIPs": [{"ip": "192.0.2.2"}, {"ip": "2001:db8::2"}], "podIP": "192.0.2.2"}}))
        .ok();
    assert_eq!(changed["status"]["podIP"], "192.0.2.2");
}

#[test]
fn a_status_does_not_raise_the_generation() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 0)).created();
    let changed = scope.merge("replicasets/one/status", &json!({"status": {"replicas": 0, "fullyLabeledReplicas": 0}})).ok();
    assert_eq!(changed["metadata"]["generation"], 1);
}

#[test]
fn a_kind_without_a_status() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    scope.get("configmaps/one/status").refused(404, "NotFound", "the server could not find the requested resource");
}

#[test]
fn statuses_are_not_created_nor_deleted() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let message = "the server does not allow this method on the requested resource";
    scope.delete("pods/one/status").refused(405, "MethodNotAllowed", message);
    scope.post("pods/one/status", &pod("one")).refused(405, "MethodNotAllowed", message);
}

#[test]
fn the_status_of_a_namespace_and_a_service() {
    let scope = Scope::new();
    let path = format!("/api/v1/namespaces/{}/status", scope.name);
    assert_eq!(server().get(&path).ok()["status"]["phase"], "Active");
    scope.post("services", &crate::harness::objects::service("one")).created();
    assert_eq!(scope.get("services/one/status").ok()["status"], json!({"loadBalancer": {}}));
}

#[test]
fn a_scale() {
    let scope = Scope::new();
    let made = scope.post("deployments", &deployment("one", 0)).created();
    let scale = scope.get("deployments/one/scale").ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(scale["spec"], json!({}));
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=one"}));
}

#[test]
fn scaling() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 0)).created();
    let mut scale = scope.get("replicasets/one/scale").ok();
    scale["spec"]["replicas"] = json!(2);
    // The controller may have written meanwhile.
    scale["metadata"].as_object_mut().expect("metadata is an object").remove("resourceVersion");
    let scaled = scope.put("replicasets/one/scale", &scale).ok();
    assert_eq!(scaled["spec"]["replicas"], 2);
    let set = scope.get("replicasets/one").ok();
    assert_eq!((&set["spec"]["replicas"], &set["metadata"]["generation"]), (&json!(2), &json!(2)));
    let scaled = scope.merge("replicasets/one/scale", &json!({"spec": {"replicas": 1}})).ok();
    assert_eq!(scaled["spec"]["replicas"], 1);
}

#[test]
fn scaling_below_zero() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 0)).created();
    let cause = ("FieldValueInvalid", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0");
    scope.merge("deployments/one/scale", &json!({"spec": {"replicas": -1}})).invalid("autoscaling", "Scale", "one", &[cause]);
}

#[test]
fn scaling_with_an_old_version() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 0)).created();
    let mut scale = scope.get("deployments/one/scale").ok();
    scale["metadata"]["resourceVersion"] = json!("1");
    scale["spec"]["replicas"] = json!(1);
    let status = scope.put("deployments/one/scale", &scale).expect(409);
    assert_eq!((&status["reason"], &status["details"]["kind"]), (&json!("Conflict"), &json!("deployments")));
}

#[test]
fn binding_a_pod_to_a_node() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "here"}});
    let status = scope.post("pods/one/binding", &binding).created();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    let bound = scope.get("pods/one").ok();
    assert_eq!(bound["spec"]["nodeName"], "here");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let status = scope.post("pods/one/binding", &binding).expect(409);
    let message = "Operation cannot be fulfilled on pods/binding \"one\": pod one is already assigned to node \"here\"";
    assert_eq!(status["message"], message);
}

#[test]
fn evicting_a_pod() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}});
    let status = scope.post("pods/one/eviction", &eviction).created();
    assert_eq!(status["status"], "Success");
    assert_eq!(scope.get("pods/one").status, 404);
}

#[test]
fn a_token_for_a_service_account() {
    let scope = Scope::new();
    scope.post("serviceaccounts", &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "one"}})).created();
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
    let made = scope.call(Method::POST, "serviceaccounts/one/token").json(&request).send().created();
    let token = made["status"]["token"].as_str().unwrap_or_default();
    assert_eq!(token.split('.').count(), 3, "{made}");
}
