//! Kinds, one by one: what they are completed with and what is refused.

use std::collections::BTreeSet;

use crate::common::Subject;
use serde_json::{Value, json};

const SPACE: &str = "/api/v1/namespaces/default";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}})
}

#[tokio::test]
async fn pods_are_completed_validated_and_end_gracefully() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let pods = format!("{SPACE}/pods");
    let (code, made) = server.post(&pods, &pod("a")).await;
    assert_eq!(code, 201, "{made}");
    let spec = &made["spec"];
    assert_eq!((spec["restartPolicy"].as_str(), spec["dnsPolicy"].as_str()), (Some("Always"), Some("ClusterFirst")));
    assert_eq!((spec["containers"][0]["ports"][0]["protocol"].as_str(), made["status"]["phase"].as_str()), (Some("TCP"), Some("Pending")));
    let (code, refused) = server.post(&pods, &json!({"metadata": {"name": "B_"}, "spec": {"containers": [{"name": "c"}]}})).await;
    let fields: Vec<&str> = refused["details"]["causes"].as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!((code, fields), (422, vec!["metadata.name", "spec.containers[0].image"]));
    let binding = json!({"target": {"kind": "Node", "name": "n1"}});
    assert_eq!(server.post(&format!("{pods}/a/binding"), &binding).await.0, 201);
    assert_eq!(server.get(&format!("{pods}?fieldSelector=spec.nodeName%3Dn1")).await.1["items"][0]["metadata"]["name"], "a");
    assert_eq!(server.get(&format!("{pods}?fieldSelector=spec.colour%3Dred")).await.0, 400);
    let (_, marked) = server.delete(&format!("{pods}/a")).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(server.get(&format!("{pods}/a")).await.0, 200);
    server.delete(&format!("{pods}/a?gracePeriodSeconds=0")).await;
    assert_eq!(server.get(&format!("{pods}/a")).await.0, 404);
    server.stop().await;
}

#[tokio::test]
async fn services_get_addresses_and_ports_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let services = format!("{SPACE}/services");
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..20 {
        let document = json!({
            "metadata": {"name": format!("s{number}")},
            "spec": {"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
        });
        let (code, made) = server.post(&services, &document).await;
        assert_eq!(code, 201, "{made}");
        for address in made["spec"]["clusterIPs"].as_array().unwrap() {
            assert!(addresses.insert(address.to_string()));
        }
        assert!(ports.insert(made["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    }
    assert_eq!(addresses.len(), 40);
    let asked = |ip: &str| json!({"metadata": {"name": "x"}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
    assert_eq!(server.post(&services, &asked("192.0.2.1")).await.0, 422);
    assert_eq!(server.post(&services, &asked("10.96.0.1")).await.0, 422);
    assert_eq!(server.post(&services, &asked("None")).await.1["spec"]["clusterIPs"], json!(["None"]));
    let (_, first) = server.get(&format!("{services}/s0")).await;
    let change = json!({"spec": {"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"]}});
    assert_eq!(server.patch("merge", &format!("{services}/s0"), &change).await.0, 422);
    let (_, kept) = server
        .put(&format!("{services}/s0"), &json!({"metadata": {"name": "s0"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}))
        .await;
    assert_eq!(kept["spec"]["clusterIP"], first["spec"]["clusterIP"]);
    assert_eq!(kept["spec"]["ports"][0]["nodePort"], first["spec"]["ports"][0]["nodePort"]);
    server.stop().await;
}

#[tokio::test]
async fn events_have_two_shapes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "note": "hello", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Greeting", "reason": "Greeted",
        "reportingController": "test/greeter", "reportingInstance": "greeter-1",
    });
    let (code, made) = server.post(events, &event).await;
    assert_eq!((code, made["note"].as_str(), made["apiVersion"].as_str()), (201, Some("hello"), Some("events.k8s.io/v1")), "{made}");
    let (_, core) = server.get(&format!("{SPACE}/events/e")).await;
    assert_eq!((core["message"].as_str(), core["involvedObject"]["name"].as_str()), (Some("hello"), Some("p")));
    server.stop().await;
}

#[tokio::test]
async fn answers_come_in_the_form_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    server.post(&format!("{SPACE}/pods"), &pod("a")).await;
    let accept = |media_type| [("accept", media_type)];
    let (_, table) =
        server.ask("GET", &format!("{SPACE}/pods"), &accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), "").await;
    assert_eq!((table["kind"].as_str(), &table["rows"][0]["cells"][1]), (Some("Table"), &json!("0/1")));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, yaml) = server.ask("GET", &format!("{SPACE}/pods/a"), &accept("application/yaml"), "").await;
    assert!(yaml.as_str().unwrap().starts_with("apiVersion: v1\nkind: Pod\n"), "{yaml}");
    let body = "kind: ConfigMap\napiVersion: v1\nmetadata:\n  generateName: y-\ndata:\n  a: b\n";
    let (code, made) = server.ask("POST", &format!("{SPACE}/configmaps"), &[("content-type", "application/yaml")], body).await;
    assert!(code == 201 && made["metadata"]["name"].as_str().unwrap().starts_with("y-"), "{made}");
    for (path, kind) in [("/api", "APIVersions"), ("/apis", "APIGroupList"), ("/api/v1", "APIResourceList"), ("/apis/apps", "APIGroup")] {
        assert_eq!(server.get(path).await.1["kind"], kind);
    }
    let aggregated = accept("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
    assert_eq!(server.ask("GET", "/apis", &aggregated, "").await.1["kind"], "APIGroupDiscoveryList");
    assert_eq!(server.get("/openapi/v2").await.1["swagger"], "2.0");
    assert_eq!(server.get("/openapi/v3/apis/apps/v1").await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn nonsense_is_answered_with_a_status() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let maps = format!("{SPACE}/configmaps");
    let json_type = [("content-type", "application/json")];
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"metadata\":7}",
        "{\"metadata\":{\"labels\":{\"a\":1}}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}",
    ] {
        let (code, answer) = server.ask("POST", &maps, &json_type, body).await;
        assert_eq!((code, answer["kind"].as_str()), (400, Some("Status")), "{body}: {answer}");
    }
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    assert_eq!(server.ask("POST", &maps, &protobuf, "k8s\0").await.0, 400);
    assert_eq!(server.ask("POST", &maps, &[("content-type", "application/cbor")], "x").await.0, 415);
    let strict = server.post(&format!("{maps}?fieldValidation=Strict"), &json!({"metadata": {"name": "s"}, "colour": "red"})).await;
    assert!(strict.0 == 400 && strict.1["message"].as_str().unwrap().contains("unknown field \"colour\""), "{}", strict.1);
    let nested = json!({"metadata": {"name": "n"}, "spec": {"containers": [{"name": "c", "image": "i", "colour": 1}]}});
    let strict = server.post(&format!("{SPACE}/pods?fieldValidation=Strict"), &nested).await;
    assert!(strict.1["message"].as_str().unwrap().contains("unknown field \"spec.containers[0].colour\""), "{}", strict.1);
    let large = json!({"metadata": {"name": "l"}, "data": {"k": "v".repeat(4 << 20)}});
    assert_eq!(server.post(&maps, &large).await.1["reason"], "RequestEntityTooLarge");
    assert_eq!(server.get("/api/v1/nothing").await.0, 404);
    assert_eq!(server.ask("PUT", &maps, &json_type, "{}").await.1["reason"], "MethodNotAllowed");
    assert_eq!(server.get(&format!("{maps}?labelSelector=a%20in%20(")).await.0, 400);
    assert_eq!(server.get(&format!("{maps}?resourceVersion=999999")).await.0, 504);
    let apply = server.ask("PATCH", &format!("{maps}/x"), &[("content-type", "application/apply-patch+yaml")], "a: b").await;
    assert_eq!(apply.0, 415);
    let (code, dry) = server.post(&format!("{maps}?dryRun=All"), &json!({"metadata": {"name": "dry"}})).await;
    assert_eq!((code, server.get(&format!("{maps}/dry")).await.0), (201, 404), "{dry}");
    let mut old = server.watch(&format!("{maps}?watch=true&resourceVersion=1&timeoutSeconds=1")).await;
    while old.next().await.is_some() {}
    server.stop().await;
}
