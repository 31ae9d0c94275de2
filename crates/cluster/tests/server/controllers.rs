//! What documents promise comes about.

use crate::common::Subject;
use serde_json::{Value, json};

const SPACE: &str = "/api/v1/namespaces/default";
const APPS: &str = "/apis/apps/v1/namespaces/default";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn deployment(replicas: i64, image: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}});
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    })
}

fn items(list: &Value) -> usize {
    list["items"].as_array().map_or(0, Vec::len)
}

/// Plays the agent of a node: every pod gets an address and is ready.
async fn run_pods(server: &Subject) {
    let (_, pods) = server.get(&format!("{SPACE}/pods")).await;
    for (index, pod) in pods["items"].as_array().unwrap().iter().enumerate() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let ip = format!("10.0.0.{}", index + 1);
        let status = json!({"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let (code, answer) = server.patch("strategic-merge", &format!("{SPACE}/pods/{name}/status"), &status).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test]
async fn deployments_have_pods_and_services_have_backends() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    assert_eq!(server.post(&format!("{SPACE}/services"), &service).await.0, 201);
    let (code, answer) = server.post(&format!("{APPS}/deployments"), &deployment(3, "one:1")).await;
    assert_eq!(code, 201, "{answer}");
    server.eventually(&format!("{SPACE}/pods"), |_, list| items(list) == 3).await;
    run_pods(&server).await;
    server.eventually(&format!("{APPS}/deployments/web"), |_, web| web["status"]["availableReplicas"] == 3).await;
    let selected = format!("{SLICES}?labelSelector=kubernetes.io/service-name%3Dweb");
    let full = |list: &Value| list["items"][0]["endpoints"].as_array().map_or(0, Vec::len) == 3;
    let slices = server.eventually(&selected, |_, list| full(list)).await;
    assert_eq!(slices["items"][0]["ports"][0]["port"], 8080);
    assert_eq!(slices["items"][0]["endpoints"][0]["conditions"], json!({"ready": true, "serving": true, "terminating": false}));
    server.eventually(&format!("{SPACE}/endpoints/web"), |_, one| one["subsets"][0]["addresses"].as_array().map_or(0, Vec::len) == 3).await;

    let scale = json!({"spec": {"replicas": 1}});
    let (code, scaled) = server.patch("merge", &format!("{APPS}/deployments/web/scale"), &scale).await;
    assert_eq!((code, scaled["kind"].as_str()), (200, Some("Scale")), "{scaled}");
    server.eventually(&format!("{SPACE}/pods"), |_, list| items(list) == 1).await;

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "one:2"}]}}}});
    assert_eq!(server.patch("strategic-merge", &format!("{APPS}/deployments/web"), &image).await.0, 200);
    let images = |list: &Value| {
        list["items"].as_array().unwrap().iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect::<Vec<_>>()
    };
    server.eventually(&format!("{SPACE}/pods"), |_, list| images(list).contains(&json!("one:2"))).await;
    run_pods(&server).await;
    server.eventually(&format!("{SPACE}/pods"), |_, list| images(list) == [json!("one:2")]).await;

    server.delete(&format!("{APPS}/deployments/web")).await;
    server.eventually(&format!("{SPACE}/pods"), |_, list| items(list) == 0).await;
    server.delete(&format!("{SPACE}/services/web")).await;
    server.eventually(&selected, |_, list| items(list) == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_namespace_takes_its_content_along() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    server.post("/api/v1/namespaces", &json!({"metadata": {"name": "gone"}})).await;
    server.eventually("/api/v1/namespaces/gone/serviceaccounts/default", |code, _| code == 200).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    server.post("/api/v1/namespaces/gone/configmaps", &held).await;
    let (code, marked) = server.delete("/api/v1/namespaces/gone").await;
    assert_eq!((code, marked["status"]["phase"].as_str()), (200, Some("Terminating")));
    let (code, refused) = server.post("/api/v1/namespaces/gone/configmaps", &json!({"metadata": {"name": "late"}})).await;
    assert_eq!((code, refused["details"]["causes"][0]["reason"].as_str()), (403, Some("NamespaceTerminating")));
    server.eventually("/api/v1/namespaces/gone/configmaps/held", |_, map| map["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(server.get("/api/v1/namespaces/gone").await.0, 200);
    server.patch("json", "/api/v1/namespaces/gone/configmaps/held", &json!([{"op": "remove", "path": "/metadata/finalizers"}])).await;
    server.eventually("/api/v1/namespaces/gone", |code, _| code == 404).await;
    server.stop().await;
}

#[tokio::test]
async fn dependents_go_stay_or_are_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let maps = format!("{SPACE}/configmaps");
    for (policy, stays) in [("Background", false), ("Foreground", false), ("Orphan", true)] {
        let (_, owner) = server.post(&maps, &json!({"metadata": {"name": "owner"}})).await;
        let reference =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
        server.post(&maps, &json!({"metadata": {"name": "child", "ownerReferences": [reference]}})).await;
        server.delete(&format!("{maps}/owner?propagationPolicy={policy}")).await;
        server.eventually(&format!("{maps}/owner"), |code, _| code == 404).await;
        match stays {
            true => server.eventually(&format!("{maps}/child"), |_, child| child["metadata"]["ownerReferences"].is_null()).await,
            false => server.eventually(&format!("{maps}/child"), |code, _| code == 404).await,
        };
    }
    server.stop().await;
}
