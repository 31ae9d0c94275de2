//! Addresses and ports of services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::Scope;
use crate::harness::objects::service;

fn with(name: &str, fields: Value) -> Value {
    let mut made = service(name);
    for (key, value) in fields.as_object().into_iter().flatten() {
        made["spec"][key] = value.clone();
    }
    made
}

fn address(service: &Value) -> &str {
    service["spec"]["clusterIP"].as_str().unwrap_or_default()
}

#[test]
fn every_service_gets_an_address_of_its_own() {
    let scope = Scope::new();
    let all: Vec<String> = std::thread::scope(|threads| {
        let makers: Vec<_> = (0..4)
            .map(|maker| {
                let scope = &scope;
                threads.spawn(move || {
                    let make = |number| scope.post("services", &service(&format!("s{maker}-{number}"))).created();
                    (0..10).map(|number| address(&make(number)).to_owned()).collect::<Vec<_>>()
                })
            })
            .collect();
        makers.into_iter().flat_map(|maker| maker.join().expect("a maker ends")).collect()
    });
    assert!(all.iter().all(|address| address.starts_with("10.96.")), "{all:?}");
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 40);
}

#[test]
fn both_fields_for_the_address_agree() {
    let scope = Scope::new();
    let made = scope.post("services", &service("one")).created();
    assert_eq!(made["spec"]["clusterIPs"], json!([address(&made)]));
}

#[test]
fn an_address_that_was_asked_for() {
    let scope = Scope::new();
    let made = scope.post("services", &with("one", json!({"clusterIP": "10.96.0.201"}))).created();
    assert_eq!(address(&made), "10.96.0.201");
    let message = "Invalid value: [\"10.96.0.201\"]: failed to allocate IP 10.96.0.201: provided IP is already allocated";
    let answer = scope.post("services", &with("two", json!({"clusterIP": "10.96.0.201"})));
    answer.invalid("", "Service", "two", &[("FieldValueInvalid", "spec.clusterIPs", message)]);
    scope.delete("services/one").ok();
}

#[test]
fn an_address_of_somewhere_else() {
    let scope = Scope::new();
    let message = "Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: the provided network does not match the current range";
    let answer = scope.post("services", &with("one", json!({"clusterIP": "192.0.2.1"})));
    answer.invalid("", "Service", "one", &[("FieldValueInvalid", "spec.clusterIPs", message)]);
}

#[test]
fn an_address_can_be_used_again() {
    let scope = Scope::new();
    for name in ["one", "two"] {
        scope.post("services", &with(name, json!({"clusterIP": "10.96.0.202"}))).created();
        scope.delete(&format!("services/{name}")).ok();
    }
}

#[test]
fn an_update_without_the_address_keeps_it() {
    let scope = Scope::new();
    let made = scope.post("services", &service("one")).created();
    let put = scope.put("services/one", &service("one")).ok();
    assert_eq!(put["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    assert_eq!(put["spec"]["clusterIPs"], made["spec"]["clusterIPs"]);
}

#[test]
fn headless() {
    let scope = Scope::new();
    let made = scope.post("services", &with("one", json!({"clusterIP": "None"}))).created();
    assert_eq!(made["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!((&made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
    let bare = json!({"metadata": {"name": "two"}, "spec": {"clusterIP": "None"}});
    let made = scope.post("services", &bare).created();
    assert_eq!((&made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]), (&json!(["IPv4", "IPv6"]), &json!("RequireDualStack")));
    assert!(made["spec"].get("ports").is_none());
}

#[test]
fn another_name() {
    let scope = Scope::new();
    let made =
        scope.post("services", &json!({"metadata": {"name": "one"}, "spec": {"type": "ExternalName", "externalName": "a.test"}})).created();
    let expected = json!({"type": "ExternalName", "externalName": "a.test", "sessionAffinity": "None"});
    assert_eq!(made["spec"], expected);
    let patch = json!({"spec": {"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}]}});
    let made = scope.merge("services/one", &patch).ok();
    assert!(address(&made).starts_with("10.96."), "{made}");
    let made = scope.merge("services/one", &json!({"spec": {"type": "ExternalName", "externalName": "b.test"}})).ok();
    assert!(made["spec"].get("clusterIP").is_none(), "{made}");
}

#[test]
fn six() {
    let scope = Scope::new();
    let made = scope.post("services", &with("one", json!({"ipFamilies": ["IPv6"]}))).created();
    assert!(address(&made).starts_with("fd00:10:96::"), "{made}");
    assert_eq!(made["spec"]["ipFamilyPolicy"], "SingleStack");
}

#[test]
fn two_families() {
    let scope = Scope::new();
    for policy in ["PreferDualStack", "RequireDualStack"] {
        let made = scope.post("services", &with(&policy.to_lowercase(), json!({"ipFamilyPolicy": policy}))).created();
        assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        let addresses = made["spec"]["clusterIPs"].as_array().expect("there are addresses");
        assert!(addresses[0].as_str().is_some_and(|address| address.starts_with("10.96.")));
        assert!(addresses[1].as_str().is_some_and(|address| address.starts_with("fd00:10:96::")));
    }
    let made =
        scope.post("services", &with("turned", json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}))).created();
    assert!(address(&made).starts_with("fd00:10:96::"));
}

#[test]
fn a_second_family_comes_and_goes() {
    let scope = Scope::new();
    let made = scope.post("services", &service("one")).created();
    let both = scope.merge("services/one", &json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})).ok();
    assert_eq!(both["spec"]["clusterIPs"].as_array().map(Vec::len), Some(2));
    assert_eq!(both["spec"]["clusterIPs"][0], made["spec"]["clusterIP"]);
    let one = scope.merge("services/one", &json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).ok();
    assert_eq!(one["spec"]["clusterIPs"], made["spec"]["clusterIPs"]);
    assert_eq!(one["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[test]
fn node_ports() {
    let scope = Scope::new();
    let mut seen = BTreeSet::new();
    for number in 0..10 {
        let made = scope.post("services", &with(&format!("s{number}"), json!({"type": "NodePort"}))).created();
        let port = made["spec"]["ports"][0]["nodePort"].as_u64().expect("there is a port");
        assert!((30000..=32767).contains(&port));
        assert!(seen.insert(port), "{port} twice");
        assert_eq!(made["spec"]["externalTrafficPolicy"], "Cluster");
    }
}

#[test]
fn a_node_port_that_was_asked_for() {
    let scope = Scope::new();
    let ports = json!([{"port": 80, "nodePort": 30042}]);
    scope.post("services", &with("one", json!({"type": "NodePort", "ports": ports}))).created();
    let answer = scope.post("services", &with("two", json!({"type": "NodePort", "ports": ports})));
    let message = "Invalid value: 30042: provided port is already allocated";
    answer.invalid("", "Service", "two", &[("FieldValueInvalid", "spec.ports[0].nodePort", message)]);
    scope.delete("services/one").ok();
    scope.post("services", &with("two", json!({"type": "NodePort", "ports": ports}))).created();
    scope.delete("services/two").ok();
}

#[test]
fn a_node_port_out_of_range() {
    let scope = Scope::new();
    let ports = json!([{"port": 80, "nodePort": 80}]);
    let answer = scope.post("services", &with("one", json!({"type": "NodePort", "ports": ports})));
    let message = "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767";
    answer.invalid("", "Service", "one", &[("FieldValueInvalid", "spec.ports[0].nodePort", message)]);
}

#[test]
fn one_node_port_for_two_protocols() {
    let scope = Scope::new();
    let ports = json!([{"name": "t", "port": 53, "nodePort": 30053}, {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053}]);
    scope.post("services", &with("one", json!({"type": "NodePort", "ports": ports}))).created();
    scope.delete("services/one").ok();
    let ports = json!([{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]);
    let made = scope.post("services", &with("two", json!({"type": "NodePort", "ports": ports}))).created();
    assert_eq!(made["spec"]["ports"][0]["nodePort"], made["spec"]["ports"][1]["nodePort"]);
}

#[test]
fn node_ports_come_and_go_with_the_type() {
    let scope = Scope::new();
    scope.post("services", &service("one")).created();
    let made = scope.merge("services/one", &json!({"spec": {"type": "NodePort"}})).ok();
    assert!(made["spec"]["ports"][0]["nodePort"].is_u64());
    let made = scope.merge("services/one", &json!({"spec": {"type": "ClusterIP"}})).ok();
    assert!(made["spec"]["ports"][0].get("nodePort").is_none(), "{made}");
    assert!(made["spec"].get("externalTrafficPolicy").is_none());
}

#[test]
fn node_ports_are_kept_by_updates_without_them() {
    let scope = Scope::new();
    let made = scope.post("services", &with("one", json!({"type": "NodePort"}))).created();
    let put = scope.put("services/one", &with("one", json!({"type": "NodePort"}))).ok();
    assert_eq!(put["spec"]["ports"], made["spec"]["ports"]);
}

#[test]
fn load_balancers_check_health_of_local_traffic() {
    let scope = Scope::new();
    let made = scope.post("services", &with("one", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}))).created();
    assert!(made["spec"]["healthCheckNodePort"].is_u64(), "{made}");
    let made = scope.post("services", &with("two", json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}))).created();
    assert!(made["spec"]["ports"][0].get("nodePort").is_none());
}

#[test]
fn the_service_of_the_server() {
    let service = crate::harness::server().get("/api/v1/namespaces/default/services/kubernetes").ok();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(service["spec"]["ports"][0]["name"], "https");
    assert_eq!(service["spec"]["ports"][0]["port"], 443);
}
