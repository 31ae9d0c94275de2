//! What the controllers make of deployments and replica sets.

use serde_json::{Value, json};

use crate::harness::objects::{deployment, pod, replica_set};
use crate::harness::{Scope, eventually};

pub(crate) fn pods(scope: &Scope) -> Vec<Value> {
    let list = scope.get("pods").ok();
    list["items"].as_array().cloned().unwrap_or_default()
}

pub(crate) fn count(scope: &Scope, expected: usize) -> Vec<Value> {
    eventually(&format!("there are {expected} pods"), || {
        let pods: Vec<Value> = pods(scope).into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
        (pods.len() == expected).then_some(pods)
    })
}

/// Makes all pods ready, as a node would.
fn run_all(scope: &Scope) {
    for pod in pods(scope) {
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        // It may be gone by now.
        drop(scope.merge(&format!("pods/{name}/status"), &status));
    }
}

pub(crate) fn status(scope: &Scope, resource: &str, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || {
        let object = scope.get(resource).ok();
        is_right(&object["status"]).then_some(object)
    })
}

#[test]
fn a_replica_set_makes_pods() {
    let scope = Scope::new();
    let set = scope.post("replicasets", &replica_set("one", 2)).created();
    let pods = count(&scope, 2);
    for pod in &pods {
        assert!(pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("one-") && name.len() == 9));
        assert_eq!(pod["metadata"]["generateName"], "one-");
        assert_eq!(pod["metadata"]["labels"], json!({"app": "one"}));
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "one", "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(pod["metadata"]["ownerReferences"], owner);
    }
    let set = status(&scope, "replicasets/one", "the set counts them", |status| status["replicas"] == 2);
    assert_eq!((&set["status"]["fullyLabeledReplicas"], &set["status"]["observedGeneration"]), (&json!(2), &json!(1)));
    assert!(set["status"].get("readyReplicas").is_none());
}

#[test]
fn a_replica_set_counts_what_is_ready() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 2)).created();
    count(&scope, 2);
    run_all(&scope);
    let set = status(&scope, "replicasets/one", "both are ready", |status| status["readyReplicas"] == 2);
    assert_eq!(set["status"]["availableReplicas"], 2);
}

#[test]
fn a_pod_that_is_deleted_is_replaced() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 1)).created();
    let first = count(&scope, 1);
    scope.delete(&format!("pods/{}", first[0]["metadata"]["name"].as_str().unwrap_or_default())).ok();
    eventually("another pod is made", || {
        let pods = pods(&scope);
        (pods.len() == 1 && pods[0]["metadata"]["uid"] != first[0]["metadata"]["uid"]).then_some(())
    });
}

#[test]
fn a_pod_that_failed_is_replaced() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 1)).created();
    let first = count(&scope, 1);
    let name = first[0]["metadata"]["name"].as_str().unwrap_or_default();
    scope.merge(&format!("pods/{name}/status"), &json!({"status": {"phase": "Failed"}})).ok();
    eventually("another pod is made", || pods(&scope).iter().any(|pod| pod["status"]["phase"] == "Pending").then_some(()));
}

#[test]
fn scaling_up_and_down() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 1)).created();
    count(&scope, 1);
    scope.merge("replicasets/one/scale", &json!({"spec": {"replicas": 3}})).ok();
    count(&scope, 3);
    scope.merge("replicasets/one/scale", &json!({"spec": {"replicas": 0}})).ok();
    count(&scope, 0);
    status(&scope, "replicasets/one", "nothing is counted", |status| status["replicas"] == 0);
}

#[test]
fn orphans_that_match_are_adopted() {
    let scope = Scope::new();
    let mut orphan = pod("orphan");
    orphan["metadata"]["labels"] = json!({"app": "one"});
    scope.post("pods", &orphan).created();
    let set = scope.post("replicasets", &replica_set("one", 1)).created();
    let adopted = eventually("the pod is adopted", || {
        let pod = scope.get("pods/orphan").ok();
        pod["metadata"]["ownerReferences"].is_array().then_some(pod)
    });
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
    assert_eq!(pods(&scope).len(), 1);
}

#[test]
fn a_pod_that_no_longer_matches_is_let_go() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 1)).created();
    let first = count(&scope, 1);
    let name = first[0]["metadata"]["name"].as_str().unwrap_or_default();
    scope.merge(&format!("pods/{name}"), &json!({"metadata": {"labels": {"app": "other"}}})).ok();
    count(&scope, 2);
    eventually("the first has no owner", || {
        scope.get(&format!("pods/{name}")).ok()["metadata"].get("ownerReferences").is_none().then_some(())
    });
}

#[test]
fn a_deployment_makes_a_replica_set() {
    let scope = Scope::new();
    let made = scope.post("deployments", &deployment("one", 2)).created();
    let pods = count(&scope, 2);
    let set = scope.get("replicasets").ok()["items"][0].clone();
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().expect("there is a hash");
    assert_eq!(set["metadata"]["name"], format!("one-{hash}"));
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    assert_eq!(set["spec"]["selector"]["matchLabels"], json!({"app": "one", "pod-template-hash": hash}));
    let annotations = json!({
        "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3", "deployment.kubernetes.io/revision": "1",
    });
    assert_eq!(set["metadata"]["annotations"], annotations);
    assert_eq!(pods[0]["metadata"]["labels"]["pod-template-hash"], hash);
    let made = eventually("the deployment has a revision", || {
        let made = scope.get("deployments/one").ok();
        made["metadata"]["annotations"]["deployment.kubernetes.io/revision"].is_string().then_some(made)
    });
    assert_eq!(made["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
}

#[test]
fn a_deployment_says_how_far_it_is() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 2)).created();
    count(&scope, 2);
    let made = status(&scope, "deployments/one", "it counts", |status| status["updatedReplicas"] == 2);
    assert_eq!((&made["status"]["replicas"], &made["status"]["unavailableReplicas"]), (&json!(2), &json!(2)));
    run_all(&scope);
    let made = status(&scope, "deployments/one", "it is done", |status| status["availableReplicas"] == 2);
    assert!(made["status"].get("unavailableReplicas").is_none());
    let made = status(&scope, "deployments/one", "it says so", |status| {
        let is = |kind: &str, reason: &str| {
            let mut all = status["conditions"].as_array().into_iter().flatten();
            all.any(|condition| condition["type"] == kind && condition["status"] == "True" && condition["reason"] == reason)
        };
        is("Available", "MinimumReplicasAvailable") && is("Progressing", "NewReplicaSetAvailable")
    });
    assert_eq!(made["status"]["observedGeneration"], 1);
}

#[test]
fn a_new_template_is_rolled_out() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 2)).created();
    count(&scope, 2);
    run_all(&scope);
    status(&scope, "deployments/one", "it is done", |status| status["availableReplicas"] == 2);
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.test/main:2"}]}}}});
    scope.strategic("deployments/one", &patch).ok();
    let counts = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
    let done = |status: &Value| counts.as_object().into_iter().flatten().all(|(count, expected)| status[count] == *expected);
    eventually("the new one is rolled out", || {
        run_all(&scope);
        done(&scope.get("deployments/one").ok()["status"]).then_some(())
    });
    let pods = count(&scope, 2);
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "registry.test/main:2"));
    let sets = scope.get("replicasets").ok();
    let mut sizes: Vec<i64> = sets["items"].as_array().into_iter().flatten().filter_map(|set| set["spec"]["replicas"].as_i64()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 2], "the old set is kept for going back");
    assert_eq!(scope.get("deployments/one").ok()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
}

#[test]
fn a_rollout_waits_for_what_is_not_ready() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 4)).created();
    count(&scope, 4);
    run_all(&scope);
    status(&scope, "deployments/one", "it is done", |status| status["availableReplicas"] == 4);
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.test/main:2"}]}}}});
    scope.strategic("deployments/one", &patch).ok();
    // A quarter more and a quarter less: one is taken down, two are made, and then it waits.
    let made = status(&scope, "deployments/one", "it waits", |status| status["updatedReplicas"] == 2 && status["availableReplicas"] == 3);
    assert_eq!(made["status"]["replicas"], 5);
}

#[test]
fn recreating_takes_all_down_first() {
    let scope = Scope::new();
    let mut made = deployment("one", 2);
    made["spec"]["strategy"] = json!({"type": "Recreate"});
    scope.post("deployments", &made).created();
    let first = count(&scope, 2);
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.test/main:2"}]}}}});
    scope.strategic("deployments/one", &patch).ok();
    eventually("all are new", || {
        let pods = pods(&scope);
        (pods.len() == 2 && pods.iter().all(|pod| first.iter().all(|old| old["metadata"]["uid"] != pod["metadata"]["uid"]))).then_some(())
    });
}

#[test]
fn a_paused_deployment_does_not_roll_out() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 1)).created();
    let first = count(&scope, 1);
    scope.merge("deployments/one", &json!({"spec": {"paused": true}})).ok();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.test/main:2"}]}}}});
    scope.strategic("deployments/one", &patch).ok();
    status(&scope, "deployments/one", "it is seen", |status| status["observedGeneration"] == 3);
    assert_eq!(pods(&scope)[0]["metadata"]["uid"], first[0]["metadata"]["uid"]);
    scope.merge("deployments/one", &json!({"spec": {"paused": false}})).ok();
    eventually("a new pod is made", || {
        pods(&scope).iter().any(|pod| pod["spec"]["containers"][0]["image"] == "registry.test/main:2").then_some(())
    });
}

#[test]
fn a_deployment_scales_its_set() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 1)).created();
    count(&scope, 1);
    scope.merge("deployments/one/scale", &json!({"spec": {"replicas": 3}})).ok();
    count(&scope, 3);
    assert_eq!(scope.get("replicasets").ok()["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn everything_goes_with_a_deployment() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 2)).created();
    count(&scope, 2);
    scope.delete("deployments/one").ok();
    eventually("the sets go", || scope.names("replicasets").is_empty().then_some(()));
    count(&scope, 0);
}

#[test]
fn an_orphaned_set_goes_on() {
    let scope = Scope::new();
    scope.post("deployments", &deployment("one", 1)).created();
    count(&scope, 1);
    scope.delete("deployments/one?propagationPolicy=Orphan").ok();
    eventually("the deployment goes", || (scope.get("deployments/one").status == 404).then_some(()));
    assert_eq!(scope.names("replicasets").len(), 1);
    assert_eq!(pods(&scope).len(), 1);
}
