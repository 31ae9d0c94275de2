use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::{Desired, desired};
use crate::annotation::Prefix;
use crate::lease::Membership;

fn membership(vni: Option<u32>, networks: &[&str]) -> Membership {
    Membership {
        networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
        backend: if vni.is_some() { "vxlan" } else { "host-gw" },
        vni,
        prefix: Prefix::default(),
    }
}

/// A Node of a cluster with tunnels, changed by some pointers into it.
fn node(name: &str, number: u8, changes: &[(&str, Value)]) -> Arc<Node> {
    let mut node = json!({
        "metadata": { "name": name, "annotations": {
            "flannel.alpha.coreos.com/kube-subnet-manager": "true",
            "flannel.alpha.coreos.com/backend-type": "vxlan",
            "flannel.alpha.coreos.com/backend-data": format!(r#"{{"VNI":4096,"VtepMAC":"02:15:5d:00:00:{number:02x}"}}"#),
            "flannel.alpha.coreos.com/public-ip": format!("192.168.0.{number}"),
        } },
        "spec": { "podCIDR": format!("10.244.{number}.0/24"), "podCIDRs": [format!("10.244.{number}.0/24")] },
    });
    for (pointer, value) in changes {
        let key = pointer.replace('@', "/metadata/annotations/flannel.alpha.coreos.com~1");
        match node.pointer_mut(&key) {
            Some(place) => *place = value.clone(),
            None => {
                let (parent, last) = key.rsplit_once('/').unwrap();
                node.pointer_mut(parent).unwrap()[last.replace("~1", "/")] = value.clone();
            }
        }
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

fn seen(nodes: &[Arc<Node>]) -> Desired {
    desired(nodes, "one", &membership(Some(4096), &["10.244.0.0/16"])).unwrap()
}

#[test]
fn peers_are_those_with_a_flannel() {
    let bare = node("bare", 3, &[("@kube-subnet-manager", json!("false"))]);
    let found = seen(&[node("two", 2, &[]), node("one", 1, &[]), bare]);
    assert_eq!(found.own.subnets, ["10.244.1.0/24".parse().unwrap()]);
    assert_eq!(found.peers.iter().map(|peer| peer.node.as_str()).collect::<Vec<_>>(), ["two"]);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn what_peers_say_wrongly_is_said_and_left_out() {
    let table = [
        ("@backend-type", json!("host-gw"), "its backend is \"host-gw\", and this node's is \"vxlan\""),
        ("@backend-data", json!(""), "its backend-data \"\" cannot be read"),
        ("@backend-data", json!("null"), "its virtual network is not known"),
        (
            "@backend-data",
            json!(r#"{"VNI":1,"VtepMAC":"02:15:5d:00:00:02"}"#),
            "its virtual network is 1, and this node's is 4096; set VNI",
        ),
        ("@backend-data", json!(r#"{"VNI":4096,"VtepMAC":""}"#), "it has not published the hardware address"),
        ("@backend-data", json!(r#"{"VNI":4096,"VtepMAC":"01:00:5e:00:00:01"}"#), "its backend-data names \"01:00:5e:00:00:01\""),
        ("@backend-data", json!(r#"{"VNI":4096,"VtepMAC":"x"}"#), "its backend-data names \"x\""),
        ("@public-ip", json!(""), "it has no public-ip"),
        ("@public-ip", json!("0.0.0.0"), "its public-ip \"0.0.0.0\" is no address of a node"),
        ("@public-ip", json!("fd00::1"), "its public-ip \"fd00::1\" is no address of a node"),
        ("/spec", json!({}), "it has no podCIDR"),
        ("/spec/podCIDRs", json!(["10.244.9.0/24"]), "its podCIDR 10.244.2.0/24 and its podCIDRs 10.244.9.0/24 contradict each other"),
        ("/spec", json!({ "podCIDR": "10.244.2.0" }), "its podCIDR \"10.244.2.0\" is no prefix"),
        ("/spec", json!({ "podCIDR": "10.9.2.0/24" }), "its podCIDR 10.9.2.0/24 is not within the pods' network 10.244.0.0/16"),
        ("/spec", json!({ "podCIDR": "10.0.0.0/8" }), "its podCIDR 10.0.0.0/8 is not within"),
        ("/spec", json!({ "podCIDRs": ["10.244.2.0/24", "10.244.3.0/24"] }), "it has two podCIDRs of one family"),
        ("/spec", json!({ "podCIDR": "10.244.1.128/25" }), "its podCIDR 10.244.1.128/25 overlaps 10.244.1.0/24 of node one"),
    ];
    for (pointer, value, complaint) in table {
        let found = seen(&[node("one", 1, &[]), node("two", 2, &[(pointer, value.clone())]), node("four", 4, &[])]);
        assert_eq!(found.peers.len(), 1, "the others are not spoilt by {pointer} {value}");
        assert!(found.complaints[0].starts_with(&format!("node two: {complaint}")), "{pointer} {value}: {:?}", found.complaints);
    }
}

#[test]
fn of_two_that_claim_the_same_the_older_one_has_it() {
    let old = node("zed", 2, &[("/metadata/creationTimestamp", json!("2024-01-01T00:00:00Z"))]);
    let new = node("abe", 2, &[("/metadata/creationTimestamp", json!("2024-01-02T00:00:00Z")), ("@public-ip", json!("192.168.0.9"))]);
    for nodes in [[node("one", 1, &[]), old.clone(), new.clone()], [new, old, node("one", 1, &[])]] {
        let found = seen(&nodes);
        assert_eq!(found.peers[0].node, "zed");
        assert!(found.complaints[0].contains("overlaps 10.244.2.0/24 of node zed, which was there first"), "{:?}", found.complaints);
    }
}

#[test]
fn what_is_wrong_with_this_node_is_said_with_a_remedy() {
    let v4 = membership(Some(4096), &["10.244.0.0/16"]);
    let both = membership(Some(4096), &["10.244.0.0/16", "fd00:244::/32"]);
    let error = |node: Arc<Node>, membership| desired(&[node], "one", membership).unwrap_err();
    assert!(error(node("two", 2, &[]), &v4).starts_with("there is no Node one; register it"));
    assert!(
        error(node("one", 1, &[("/spec", json!({}))]), &v4)
            .starts_with("node one has no podCIDR within 10.244.0.0/16; start kube-controller-manager")
    );
    assert!(error(node("one", 1, &[]), &both).starts_with("node one has no podCIDR within fd00:244::/32"));
    assert!(error(node("one", 1, &[("/spec", json!({ "podCIDR": "10.9.0.0/24" }))]), &v4).contains("is not within the pods' network"));
}

#[test]
fn ipv6_goes_through_the_tunnel_of_ipv4() {
    let both = membership(Some(4096), &["10.244.0.0/16", "fd00:244::/32"]);
    let dual = |name: &str, number: u8, v6: &str| {
        let cidrs = json!([format!("10.244.{number}.0/24"), format!("fd00:244:{number}::/64")]);
        node(name, number, &[("/spec", json!({ "podCIDRs": cidrs })), ("@backend-v6-data", json!(v6))])
    };
    let (same, other) = (r#"{"VNI":4096,"VtepMAC":"02:15:5d:00:00:02"}"#, r#"{"VNI":4096,"VtepMAC":"02:15:5d:00:00:77"}"#);
    let found = desired(&[dual("one", 1, ""), dual("two", 2, same), dual("three", 3, other)], "one", &both).unwrap();
    assert_eq!(found.peers.iter().map(|peer| peer.subnets.len()).collect::<Vec<_>>(), [1, 2], "three and two");
}

#[test]
fn gateways_need_an_address_of_the_subnets_family() {
    let both = membership(None, &["10.244.0.0/16", "fd00:244::/32"]);
    let gateway = |name: &str, number: u8, more: &[(&str, Value)]| {
        let cidrs = json!([format!("10.244.{number}.0/24"), format!("fd00:244:{number}::/64")]);
        let mut changes = vec![("@backend-type", json!("Host-GW")), ("/spec", json!({ "podCIDRs": cidrs }))];
        changes.extend(more.iter().cloned());
        node(name, number, &changes)
    };
    let nodes = [gateway("one", 1, &[]), gateway("two", 2, &[("@public-ipv6", json!("fd00:99::2"))]), gateway("three", 3, &[])];
    let found = desired(&nodes, "one", &both).unwrap();
    assert_eq!(found.peers.len(), 1);
    assert_eq!(found.complaints, ["node three: it has no public address of the family of fd00:244:3::/64"]);
}
