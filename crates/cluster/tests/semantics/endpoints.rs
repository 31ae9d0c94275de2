//! What the controllers make of services and pods: endpoint slices and endpoints.

use serde_json::{Value, json};

use crate::harness::objects::{pod, service};
use crate::harness::{Scope, eventually, server};

/// The slices of a service that are ours to see, once they are as they should be.
fn slice(scope: &Scope, service: &str, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    let resource = format!("endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{service}");
    eventually(what, || scope.get(&resource).ok()["items"].as_array()?.iter().find(|slice| is_right(slice)).cloned())
}

fn count(slice: &Value) -> usize {
    slice["endpoints"].as_array().map_or(0, Vec::len)
}

/// A node of this test. Without it, its pods would be no endpoints.
fn node(scope: &Scope) -> String {
    let zone = json!({"topology.kubernetes.io/zone": "z1"});
    // It may be there already.
    let _ = server().post("/api/v1/nodes", &json!({"metadata": {"name": scope.name, "labels": zone}}));
    scope.name.clone()
}

/// A pod on a node, with an address, ready or not.
fn run(scope: &Scope, name: &str, app: &str, address: &str, ready: bool) -> Value {
    let mut made = pod(name);
    made["metadata"]["labels"]["app"] = json!(app);
    made["spec"]["nodeName"] = json!(node(scope));
    made["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 8080}]);
    scope.post("pods", &made).created();
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
    }});
    scope.merge(&format!("pods/{name}/status"), &status).ok()
}

#[test]
fn a_service_without_pods_has_an_empty_slice() {
    let scope = Scope::new();
    let made = scope.post("services", &service("one")).created();
    let slice = slice(&scope, "one", "a slice is made", |_| true);
    assert_eq!((&slice["addressType"], &slice["endpoints"], &slice["ports"]), (&json!("IPv4"), &json!(null), &json!(null)));
    let labels = json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io", "kubernetes.io/service-name": "one"});
    assert_eq!(slice["metadata"]["labels"], labels);
    assert_eq!(slice["metadata"]["generateName"], "one-");
    let owner = json!([{
        "apiVersion": "v1", "kind": "Service", "name": "one", "uid": made["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(slice["metadata"]["ownerReferences"], owner);
}

#[test]
fn a_ready_pod_is_an_endpoint() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    let pod = run(&scope, "p", "one", "10.1.0.1", true);
    let slice = slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    let expected = json!([{
        "addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false}, "nodeName": scope.name, "zone": "z1",
        "targetRef": {"kind": "Pod", "namespace": scope.name, "name": "p", "uid": pod["metadata"]["uid"]},
    }]);
    assert_eq!(slice["endpoints"], expected);
    assert_eq!(slice["ports"], json!([{"name": "", "protocol": "TCP", "port": 80}]));
}

#[test]
fn a_pod_that_is_not_ready_is_there_and_says_so() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    run(&scope, "p", "one", "10.1.0.1", false);
    let made = slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    assert_eq!(made["endpoints"][0]["conditions"], json!({"ready": false, "serving": false, "terminating": false}));
    scope.strategic("pods/p/status", &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})).ok();
    slice(&scope, "one", "the pod becomes ready", |slice| slice["endpoints"][0]["conditions"]["ready"] == true);
}

#[test]
fn a_pod_without_an_address_is_no_endpoint() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    let mut bare = pod("bare");
    bare["metadata"]["labels"]["app"] = json!("one");
    bare["spec"]["nodeName"] = json!(node(&scope));
    scope.post("pods", &bare).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    let slice = slice(&scope, "one", "the pod is in it", |slice| count(slice) > 0);
    assert_eq!(count(&slice), 1);
}

#[test]
fn a_pod_that_ends_is_terminating_and_still_serves() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    scope.delete("pods/p").ok();
    let made = slice(&scope, "one", "the pod is terminating", |slice| slice["endpoints"][0]["conditions"]["terminating"] == true);
    assert_eq!(made["endpoints"][0]["conditions"], json!({"ready": false, "serving": true, "terminating": true}));
    scope.delete("pods/p?gracePeriodSeconds=0").ok();
    slice(&scope, "one", "the pod is gone", |slice| count(slice) == 0);
}

#[test]
fn pods_that_are_done_are_no_endpoints() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    // The phase alone is not noticed; a node changes both at once.
    let done = json!({"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]}});
    scope.strategic("pods/p/status", &done).ok();
    slice(&scope, "one", "the pod is gone", |slice| count(slice) == 0);
}

#[test]
fn a_service_may_publish_what_is_not_ready() {
    let scope = Scope::new();
    let mut eager = service("one");
    eager["spec"]["publishNotReadyAddresses"] = json!(true);
    scope.post("services", &eager).created();
    run(&scope, "p", "one", "10.1.0.1", false);
    let made = slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    assert_eq!(made["endpoints"][0]["conditions"], json!({"ready": true, "serving": false, "terminating": false}));
}

#[test]
fn ports_by_name() {
    let scope = Scope::new();
    let mut named = service("one");
    named["spec"]["ports"] = json!([
        {"name": "http", "port": 80, "targetPort": "web", "appProtocol": "http"},
        {"name": "none", "port": 81, "targetPort": "nosuch"},
        {"name": "number", "port": 82, "targetPort": 9090, "protocol": "UDP"},
    ]);
    scope.post("services", &named).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    let made = slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    let mut ports = made["ports"].as_array().expect("there are ports").clone();
    ports.sort_by_key(|port| port["name"].to_string());
    let expected = json!([
        {"name": "http", "protocol": "TCP", "port": 8080, "appProtocol": "http"},
        {"name": "number", "protocol": "UDP", "port": 9090},
    ]);
    assert_eq!(json!(ports), expected);
}

#[test]
fn labels_decide() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    scope.merge("pods/p", &json!({"metadata": {"labels": {"app": "other"}}})).ok();
    slice(&scope, "one", "the pod is gone", |slice| count(slice) == 0);
    scope.merge("services/one", &json!({"spec": {"selector": {"app": "other"}}})).ok();
    slice(&scope, "one", "the pod is back", |slice| count(slice) == 1);
}

#[test]
fn a_headless_service_says_so() {
    let scope = Scope::new();
    let mut headless = service("one");
    headless["spec"]["clusterIP"] = json!("None");
    scope.post("services", &headless).created();
    let made = slice(&scope, "one", "a slice is made", |_| true);
    assert_eq!(made["metadata"]["labels"]["service.kubernetes.io/headless"], "");
}

#[test]
fn both_families_have_slices() {
    let scope = Scope::new();
    let mut dual = service("one");
    dual["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    scope.post("services", &dual).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    let addresses = json!({"status": {"podIPs": [{"ip": "10.1.0.1"}, {"ip": "2001:db8::1"}]}});
    scope.merge("pods/p/status", &addresses).ok();
    for (family, address) in [("IPv4", "10.1.0.1"), ("IPv6", "2001:db8::1")] {
        let made = slice(&scope, "one", family, |slice| slice["addressType"] == family && count(slice) == 1);
        assert_eq!(made["endpoints"][0]["addresses"], json!([address]));
    }
}

#[test]
fn without_a_selector_nothing_is_made() {
    let scope = Scope::new();
    let mut manual = service("manual");
    manual["spec"].as_object_mut().expect("a spec is an object").remove("selector");
    scope.post("services", &manual).created();
    scope.post("services", &service("one")).created();
    slice(&scope, "one", "a slice is made", |_| true);
    let none = scope.get("endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dmanual").ok();
    assert_eq!(none["items"], json!([]));
    assert_eq!(scope.get("endpoints/manual").status, 404);
}

#[test]
fn slices_go_with_their_service() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    slice(&scope, "one", "a slice is made", |_| true);
    scope.delete("services/one").ok();
    eventually("the slices go", || scope.names("endpointslices").is_empty().then_some(()));
    eventually("the endpoints go", || scope.names("endpoints").is_empty().then_some(()));
}

#[test]
fn a_slice_that_somebody_deleted_comes_back() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    let made = slice(&scope, "one", "a slice is made", |_| true);
    scope.delete(&format!("endpointslices/{}", made["metadata"]["name"].as_str().unwrap_or_default())).ok();
    slice(&scope, "one", "another slice is made", |slice| slice["metadata"]["uid"] != made["metadata"]["uid"]);
}

#[test]
fn the_old_endpoints() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    run(&scope, "a", "one", "10.1.0.1", true);
    run(&scope, "b", "one", "10.1.0.2", false);
    let made = eventually("both are there", || {
        let endpoints = scope.get("endpoints/one");
        let subset = &endpoints["subsets"][0];
        (subset["addresses"].is_array() && subset["notReadyAddresses"].is_array()).then(|| subset.clone())
    });
    assert_eq!(made["addresses"][0]["ip"], "10.1.0.1");
    assert_eq!(made["addresses"][0]["targetRef"]["name"], "a");
    assert_eq!(made["notReadyAddresses"][0]["ip"], "10.1.0.2");
    assert_eq!(made["ports"], json!([{"port": 80, "protocol": "TCP"}]));
}

#[test]
fn a_pod_on_a_node_that_is_not_there_is_no_endpoint() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    let mut lost = pod("lost");
    lost["metadata"]["labels"]["app"] = json!("one");
    lost["spec"]["nodeName"] = json!("nowhere");
    scope.post("pods", &lost).created();
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.0.2", "podIPs": [{"ip": "10.1.0.2"}], "conditions": [{"type": "Ready", "status": "True"}]}});
    scope.merge("pods/lost/status", &status).ok();
    run(&scope, "p", "one", "10.1.0.1", true);
    let slice = slice(&scope, "one", "the other pod is in it", |slice| count(slice) > 0);
    assert_eq!((count(&slice), &slice["endpoints"][0]["targetRef"]["name"]), (1, &json!("p")));
}

#[test]
fn endpoints_are_hinted_at_their_own_zone() {
    let scope = Scope::new();
    let mut near = service("one");
    near["spec"]["trafficDistribution"] = json!("PreferSameZone");
    scope.post("services", &near).created();
    run(&scope, "p", "one", "10.1.0.1", true);
    let made = slice(&scope, "one", "the pod is in it", |slice| count(slice) == 1);
    assert_eq!(made["endpoints"][0]["hints"], json!({"forZones": [{"name": "z1"}]}));
    scope.merge("services/one", &json!({"spec": {"trafficDistribution": "PreferSameNode"}})).ok();
    let hints = json!({"forZones": [{"name": "z1"}], "forNodes": [{"name": scope.name}]});
    slice(&scope, "one", "the node is hinted at", |slice| slice["endpoints"][0]["hints"] == hints);
}

#[test]
fn a_slice_has_a_hundred_endpoints_at_most() {
    let scope = Scope::new();
    for number in 0..103 {
        run(&scope, &format!("p{number}"), "one", &format!("10.1.1.{number}"), true);
    }
    scope.post("services", &service("one")).created();
    let sizes = eventually("all are in slices", || {
        let list = scope.get("endpointslices").ok();
        let mut sizes: Vec<usize> = list["items"].as_array()?.iter().map(count).collect();
        sizes.sort_unstable();
        (sizes.iter().sum::<usize>() == 103).then_some(sizes)
    });
    assert_eq!(sizes, [3, 100]);
}
