//! How long controllers wait: until a pod has been ready for long enough, and until a rollout is said to be stuck.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::harness::objects::{deployment, replica_set};
use crate::harness::{Scope, eventually};
use crate::workloads::{count, pods, status};

/// What is asked for, and what of it must be seen: times in documents are whole seconds, and clients look seldom.
const WAIT: i64 = 5;
const LEAST: Duration = Duration::from_secs(2);

/// Makes all pods ready from now on, as a node would.
fn become_ready(scope: &Scope) -> Instant {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).expect("zero is a number of nanoseconds");
    let now = now.format(&Rfc3339).expect("a moment can be written");
    for pod in pods(scope) {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": now}]);
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        scope.merge(&format!("pods/{name}/status"), &json!({"status": {"phase": "Running", "conditions": ready}})).ok();
    }
    Instant::now()
}

fn waiting(name: &str, fields: Value) -> Value {
    let mut made = deployment(name, 1);
    made["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for (key, value) in fields.as_object().into_iter().flatten() {
        made["spec"][key] = value.clone();
    }
    made
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

#[test]
fn a_replica_set_waits_for_what_has_just_become_ready() {
    let scope = Scope::new();
    let mut set = replica_set("one", 1);
    set["spec"]["minReadySeconds"] = json!(WAIT);
    scope.post("replicasets", &set).created();
    count(&scope, 1);
    let begin = become_ready(&scope);
    let set = status(&scope, "replicasets/one", "it is ready", |status| status["readyReplicas"] == 1);
    assert!(set["status"].get("availableReplicas").is_none());
    status(&scope, "replicasets/one", "it is available", |status| status["availableReplicas"] == 1);
    assert!(begin.elapsed() >= LEAST);
}

#[test]
fn a_rollout_waits_for_what_has_just_become_ready() {
    let scope = Scope::new();
    scope.post("deployments", &waiting("one", json!({}))).created();
    let first = count(&scope, 1)[0]["metadata"]["uid"].clone();
    become_ready(&scope);
    status(&scope, "deployments/one", "it is available", |status| status["availableReplicas"] == 1);
    let next = json!({
        "minReadySeconds": WAIT, "template": {"spec": {"containers": [{"name": "main", "image": "registry.test/main:2"}]}},
    });
    scope.merge("deployments/one", &json!({ "spec": next })).ok();
    count(&scope, 2);
    let begin = become_ready(&scope);
    status(&scope, "deployments/one", "both are ready", |status| status["readyReplicas"] == 2);
    let left = count(&scope, 1);
    assert!(begin.elapsed() >= LEAST && left[0]["metadata"]["uid"] != first);
    status(&scope, "deployments/one", "it has come to its end", |status| {
        condition(status, "Progressing")["reason"] == "NewReplicaSetAvailable" && status["availableReplicas"] == 1
    });
}

#[test]
fn the_set_waits_as_the_deployment_says() {
    let scope = Scope::new();
    scope.post("deployments", &waiting("one", json!({"minReadySeconds": 7}))).created();
    count(&scope, 1);
    let name = format!("replicasets/{}", scope.names("replicasets")[0]);
    assert_eq!(scope.get(&name).ok()["spec"]["minReadySeconds"], 7);
    scope.merge("deployments/one", &json!({"spec": {"minReadySeconds": 0}})).ok();
    eventually("the set is changed", || scope.get(&name).ok()["spec"].get("minReadySeconds").is_none().then_some(()));
}

#[test]
fn a_rollout_that_gets_nowhere() {
    let scope = Scope::new();
    scope.post("deployments", &waiting("one", json!({"progressDeadlineSeconds": 2}))).created();
    count(&scope, 1);
    let is = |status: &Value, value: &str, reason: &str| {
        let told = condition(status, "Progressing");
        told["status"] == value && told["reason"] == reason
    };
    let stuck = status(&scope, "deployments/one", "it is stuck", |status| is(status, "False", "ProgressDeadlineExceeded"));
    let set = scope.names("replicasets").remove(0);
    let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
    assert_eq!(condition(&stuck["status"], "Progressing")["message"], message);
    become_ready(&scope);
    let done = status(&scope, "deployments/one", "it goes on", |status| is(status, "True", "NewReplicaSetAvailable"));
    let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
    assert_eq!(condition(&done["status"], "Progressing")["message"], message);
}

#[test]
fn a_deployment_says_that_it_is_paused() {
    let scope = Scope::new();
    scope.post("deployments", &waiting("one", json!({"paused": true}))).created();
    let told = |what: &str, reason: &str| {
        let object = status(&scope, "deployments/one", what, |status| condition(status, "Progressing")["reason"] == reason);
        let condition = condition(&object["status"], "Progressing");
        (condition["status"].clone(), condition["message"].clone())
    };
    assert_eq!(told("it is paused", "DeploymentPaused"), (json!("Unknown"), json!("Deployment is paused")));
    scope.merge("deployments/one", &json!({"spec": {"paused": null}})).ok();
    count(&scope, 1);
    become_ready(&scope);
    assert_eq!(told("it is complete", "NewReplicaSetAvailable").0, "True");
}

#[test]
fn scaling_is_no_rollout() {
    let scope = Scope::new();
    scope.post("deployments", &waiting("one", json!({}))).created();
    count(&scope, 1);
    become_ready(&scope);
    let reason = |status: &Value| condition(status, "Progressing")["reason"] == "NewReplicaSetAvailable";
    status(&scope, "deployments/one", "it is complete", reason);
    scope.merge("deployments/one", &json!({"spec": {"replicas": 2}})).ok();
    let scaled = status(&scope, "deployments/one", "there are two", |status| status["replicas"] == 2 && status["observedGeneration"] == 2);
    assert!(reason(&scaled["status"]) && scaled["status"]["unavailableReplicas"] == 1, "{scaled}");
}
