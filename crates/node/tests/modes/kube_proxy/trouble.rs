//! What goes wrong around kube-proxy: it says so, keeps what works, and recovers by itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{CLUSTER_IPS, addresses, at, bridge, comes_to, spec};
use crate::harness::api::{self, Api};
use crate::harness::balancer::names;
use crate::harness::fake_api::{Behaviour, Collection, FakeApi, expired, modified};
use crate::harness::probe::{get, meet};
use crate::harness::serve::PORT;
use crate::harness::{MOMENT, Node, Pod, World, eventually, run};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

const HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// What `/healthz` says, whatever its code.
fn health(node: &Node) -> Value {
    serde_json::from_str(&get(node, HEALTH, "/healthz").1).unwrap_or_default()
}

/// Waits until `/healthz` and an Event of the node say something.
fn says(node: &Node, api: &Api, text: &str) {
    eventually(&format!("/healthz says {text:?}"), || health(node)["trouble"].to_string().contains(text));
    eventually(&format!("an Event says {text:?}"), || {
        let is_it = |event: &Value| event["involvedObject"]["name"] == *node.name && event["message"].to_string().contains(text);
        api.list("/api/v1/namespaces/default/events").iter().any(is_it)
    });
    assert!(node.log("kube-proxy").contains(text), "the log says nothing of {text:?}");
}

fn is_well(node: &Node) -> bool {
    get(node, HEALTH, "/healthz").0 && health(node)["trouble"] == json!([])
}

/// The value of a metric without labels.
fn metric(node: &Node, name: &str) -> f64 {
    let text = get(node, METRICS, "/metrics").1;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no metric {name}:\n{text}"))
}

#[test]
fn an_hns_that_hangs_is_told_of_and_waited_for() {
    run("kube_proxy::trouble::an_hns_that_hangs_is_told_of_and_waited_for", || {
        let world = World::new(1);
        let node = world.one();
        let (api, [client, one, two]) = bridge(&world);
        let _proxy = api.kube_proxy(node, "bridge", &[]);
        api.service("web", &spec(json!({})));
        api.backends("web", PORT, &addresses(&[&one], node));
        let front = at(CLUSTER_IPS[0], 80);
        comes_to(&client, front, &names(&[&one]));
        let hnsd = node.hnsd.as_ref().expect("hnsd runs");
        hnsd.pause();
        // A change that HNS hears nothing of, and when it happened.
        api.backends("web", PORT, &addresses(&[&two], node));
        let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": Timestamp::now().to_string()});
        api.patch(&format!("{SLICES}/web-ipv4"), &json!({"metadata": {"annotations": annotations}}));
        says(node, &api, "HNS: no answer for 10 s");
        eventually("it is not healthy", || !get(node, HEALTH, "/healthz").0);
        assert_eq!(get(node, METRICS, "/proxyMode"), (true, "kernelspace".to_owned()));
        assert_eq!(metric(node, "kubeproxy_network_programming_duration_seconds_count"), 0.0);
        // What HNS has nothing to do with goes on: the node's fate is followed, and connections are made.
        api.patch(&format!("/api/v1/nodes/{}", node.name), &taints(&["ToBeDeletedByClusterAutoscaler"]));
        eventually("the node is about to go", || health(node)["nodeEligible"] == false);
        api.patch(&format!("/api/v1/nodes/{}", node.name), &taints(&[]));
        assert_eq!(meet(&client, front).expect("an answer").0, one.name);
        hnsd.resume();
        comes_to(&client, front, &names(&[&two]));
        eventually("all is well", || is_well(node));
        eventually("the change is counted", || metric(node, "kubeproxy_network_programming_duration_seconds_count") == 1.0);
        let seconds = metric(node, "kubeproxy_network_programming_duration_seconds_sum");
        assert!((9.0..60.0).contains(&seconds), "it took {seconds} s");
    });
}

fn taints(keys: &[&str]) -> Value {
    let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
    json!({"spec": {"taints": taints}})
}

#[test]
fn an_overlay_without_a_source_address_waits_for_one() {
    run("kube_proxy::trouble::an_overlay_without_a_source_address_waits_for_one", || {
        let world = World::new(1);
        let node = world.one();
        let overlay = Overlay { v6: false, ..Overlay::default() };
        let network = overlay.on(node, 2);
        let api = Api::start(&world);
        let [client, backend] = [11, 12].map(|number| overlay.pod(node, network, number, &[]));
        let port = json!({"name": "tcp", "port": 80, "targetPort": PORT});
        api.service("web", &json!({"clusterIP": CLUSTER_IPS[0], "ports": [port]}));
        api.backends("web", PORT, &[(backend.v4(), node)]);
        let proxy = api.kube_proxy(node, "vxlan0", &[]);
        says(node, &api, "is an overlay and needs a source address; give one of its pod subnet with --source-vip");
        drop(proxy);
        let _proxy = api.kube_proxy(node, "vxlan0", &["--source-vip", "10.244.1.200"]);
        comes_to(&client, at(CLUSTER_IPS[0], 80), &names(&[&backend]));
        eventually("all is well", || is_well(node));
    });
}

/// What a fake server tells of a Service with one backend, the Node among it. Of the slices, watches say the events.
fn told(node: &Node, version: &'static str, backend: &Pod, events: fn(&Value) -> Vec<Value>) -> Behaviour {
    let metadata = |name: &str| json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": version});
    let mut slice = json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata("web-1"), "addressType": "IPv4",
        "endpoints": [{"addresses": [backend.v4().to_string()], "nodeName": node.name, "conditions": {"ready": true}}],
        "ports": [{"name": "tcp", "port": PORT, "protocol": "TCP"}]});
    slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": "web"});
    let service = json!({
        "kind": "Service", "apiVersion": "v1", "metadata": metadata("web"),
        "spec": {"clusterIP": CLUSTER_IPS[0], "ports": [{"name": "tcp", "port": 80, "targetPort": PORT}]}});
    let status = json!({"addresses": [{"type": "InternalIP", "address": node.v4().to_string()}]});
    let own = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": node.name, "resourceVersion": version}, "status": status});
    let collection = |name, item, events| Collection { name, version, items: vec![item], events };
    let events = events(&slice);
    Behaviour::Serves(vec![
        collection("nodes", own, Vec::new()),
        collection("services", service, Vec::new()),
        collection("endpointslices", slice, events),
    ])
}

#[test]
fn watches_that_break_and_repeat_and_go_back_in_time_are_followed() {
    run("kube_proxy::trouble::watches_that_break_and_repeat_and_go_back_in_time_are_followed", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        world.route_to(node, &["10.96.0.0/16"]);
        let [client, one, two] = [11, 12, 13].map(|number| routed_pod(node, network, number, &[]));
        // The same again and again, and the end of the connection after it.
        let server = FakeApi::start(node, told(node, "100", &one, |slice| vec![modified(slice), modified(slice)]));
        let _proxy = api::kube_proxy(node, &server.kubeconfig, "bridge", &[]);
        let front = at(CLUSTER_IPS[0], 80);
        comes_to(&client, front, &names(&[&one]));
        let syncs = || node.log("kube-proxy").matches("synced").count();
        let before = syncs();
        std::thread::sleep(MOMENT * 4);
        assert_eq!(syncs(), before, "nothing is done twice:\n{}", node.log("kube-proxy"));
        assert!(is_well(node), "{}", health(node));
        // A server that has forgotten everything since and lists what is older: what is said last counts.
        server.behave(told(node, "50", &two, |_| vec![expired()]));
        comes_to(&client, front, &names(&[&two]));
        server.behave(told(node, "120", &one, |_| vec![expired()]));
        comes_to(&client, front, &names(&[&one]));
        // A server that refuses or says nothing changes nothing.
        server.behave(Behaviour::Refuses(500));
        eventually("it is told", || health(node)["trouble"].to_string().contains("the API server: "));
        assert_eq!(meet(&client, front).expect("an answer").0, one.name);
        server.behave(told(node, "130", &two, |_| vec![expired()]));
        comes_to(&client, front, &names(&[&two]));
        server.behave(Behaviour::Silent);
        std::thread::sleep(MOMENT * 4);
        assert_eq!(meet(&client, front).expect("an answer").0, two.name);
    });
}
