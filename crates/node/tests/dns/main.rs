//! dns with an API server: names follow what happens to Services and their backends.
#![cfg(unix)]

mod world;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use node::dns::PodNames;
use serde_json::{Value, json};

use world::World;

/// How long a name may take to follow, most of the time. A machine that does much else may take longer once.
const USUAL: Duration = Duration::from_secs(1);

/// Waits until a name has these records, and says how long it took.
async fn follows(world: &World, question: &str, expected: &[&str]) -> Duration {
    let begin = Instant::now();
    loop {
        let found = world.ask(question).await;
        if found == expected {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < world::PATIENCE, "{question}: {found:?} instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn read<T: serde::de::DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).expect("a document of Kubernetes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_follow_a_service_that_comes_changes_and_goes() {
    let world = World::start(PodNames::Insecure).await;
    follows(&world, "kubernetes.default.svc.cluster.local. A", &["10.96.0.1"]).await;
    let services: Api<Service> = Api::namespaced(world.client.clone(), "default");
    let mut took = Vec::new();

    let web = json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.77", "ports": [{"name": "http", "port": 80}]}});
    services.create(&PostParams::default(), &read(web)).await.expect("a Service");
    took.push(follows(&world, "web.default.svc.cluster.local. A", &["10.96.0.77"]).await);
    assert_eq!(world.ask("77.0.96.10.in-addr.arpa. PTR").await, ["web.default.svc.cluster.local."]);
    assert_eq!(world.ask("_http._tcp.web.default.svc.cluster.local. SRV").await, ["0 100 80 web.default.svc.cluster.local."]);

    let other = json!({"spec": {"ports": [{"name": "http", "port": 80}, {"name": "more", "port": 81, "protocol": "UDP"}]}});
    services.patch("web", &PatchParams::default(), &Patch::Merge(other)).await.expect("a change");
    let more = "_more._udp.web.default.svc.cluster.local. SRV";
    took.push(follows(&world, more, &["0 100 81 web.default.svc.cluster.local."]).await);

    services.delete("web", &DeleteParams::default()).await.expect("a deletion");
    took.push(follows(&world, "web.default.svc.cluster.local. A", &["NXDOMAIN"]).await);
    assert_eq!(world.ask("77.0.96.10.in-addr.arpa. PTR").await, ["REFUSED"]);

    took.sort();
    assert!(took[1] < USUAL, "names took {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_follow_the_backends_of_a_headless_service() {
    let world = World::start(PodNames::Verified).await;
    let services: Api<Service> = Api::namespaced(world.client.clone(), "default");
    let slices: Api<EndpointSlice> = Api::namespaced(world.client.clone(), "default");
    let db = json!({"metadata": {"name": "db"}, "spec": {"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]}});
    services.create(&PostParams::default(), &read(db)).await.expect("a Service");
    let backend = |address: &str, is_ready: bool| json!({"addresses": [address], "hostname": "db-0", "conditions": {"ready": is_ready}});
    let slice = json!({"metadata": {"name": "db-x", "labels": {"kubernetes.io/service-name": "db"}}, "addressType": "IPv4",
        "ports": [{"name": "sql", "port": 5432}], "endpoints": [backend("10.244.0.5", true)]});
    slices.create(&PostParams::default(), &read(slice)).await.expect("an EndpointSlice");
    follows(&world, "db-0.db.default.svc.cluster.local. A", &["10.244.0.5"]).await;
    assert_eq!(world.ask("_sql._tcp.db.default.svc.cluster.local. SRV").await, ["0 100 5432 db-0.db.default.svc.cluster.local."]);

    let moved = json!({"endpoints": [backend("10.244.0.6", true)]});
    slices.patch("db-x", &PatchParams::default(), &Patch::Merge(moved)).await.expect("a change");
    follows(&world, "db-0.db.default.svc.cluster.local. A", &["10.244.0.6"]).await;
    let lost = json!({"endpoints": [backend("10.244.0.6", false)]});
    slices.patch("db-x", &PatchParams::default(), &Patch::Merge(lost)).await.expect("a change");
    follows(&world, "db.default.svc.cluster.local. A", &["NXDOMAIN"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_pods_that_are_there_have_names_if_that_is_wanted() {
    let world = World::start(PodNames::Verified).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &read(pod)).await.expect("a pod");
    let status = json!({"status": {"phase": "Running", "podIP": "10.244.0.9", "podIPs": [{"ip": "10.244.0.9"}]}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(status)).await.expect("a status");
    follows(&world, "10-244-0-9.default.pod.cluster.local. A", &["10.244.0.9"]).await;
    assert_eq!(world.ask("10-244-0-8.default.pod.cluster.local. A").await, ["NXDOMAIN"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_numbers_are_told() {
    let world = World::start(PodNames::Insecure).await;
    follows(&world, "dns-version.cluster.local. TXT", &["1.1.0"]).await;
    let health = world.get("/healthz").await;
    assert!(health.starts_with("HTTP/1.1 200") && health.contains("\"healthy\":true"), "{health}");
    let metrics = world.get("/metrics").await;
    assert!(metrics.contains("transom_dns_answers_total{code=\"NOERROR\"} 1\n"), "{metrics}");
    assert!(metrics.contains("transom_dns_services 1\n"), "{metrics}");
}
