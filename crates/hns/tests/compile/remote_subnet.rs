//! `RemoteSubnetRoute`: a prefix behind another node of an overlay.

use hns::profile::Limit;
use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, overlay, policy, remote_subnet};

const ROUTER: &str = "02-00-00-00-0B-02";

fn put(node: &mut Node, routes: &[Value]) {
    let mut policies = routes.to_vec();
    policies.push(policy("DrMacAddress", json!({"Address": "02-00-00-00-0A-01"})));
    node.network(&overlay("net", 5000, &[("10.244.1.0/24", "10.244.1.1"), ("fd21::/64", "fd21::1")], json!(policies)));
}

fn node_with(limits: &[Limit], routes: &[Value]) -> Node {
    let mut node = Node::limited(limits);
    put(&mut node, routes);
    node.endpoint("net", &endpoint("a", 2, &["10.244.1.2", "fd21::2"], json!([])));
    node
}

fn wrapped(vni: u32, to: &str, frame: &str) -> String {
    format!("tunnel VXLAN of {vni} from 192.0.2.10 to {to} port 4789: router net > {frame}")
}

#[test]
fn inner_frames_go_from_router_to_router() {
    let mut node = node_with(&[], &[remote_subnet("10.244.2.0/24", "192.0.2.11", ROUTER), remote_subnet("fd22::/64", "fd01::11", ROUTER)]);
    node.check(&[
        ("a", "tcp 10.244.1.2:1 > 10.244.2.9:80 @gw", &wrapped(5000, "192.0.2.11", "02-00-00-00-0B-02 | 10.244.1.2:1 > 10.244.2.9:80")),
        ("a", "echo 10.244.1.2 > 10.244.2.10 @gw", &wrapped(5000, "192.0.2.11", "02-00-00-00-0B-02 | 10.244.1.2 > 10.244.2.10")),
        ("a", "tcp [fd21::2]:1 > [fd22::9]:80 @gw", &wrapped(5000, "fd01::11", "02-00-00-00-0B-02 | [fd21::2]:1 > [fd22::9]:80")),
        ("a", "tcp 10.244.1.2:1 > 10.244.3.9:80 @gw", "uplink: host > gw | 10.244.1.2:1 > 10.244.3.9:80"),
    ]);
}

#[test]
fn the_longest_prefix_decides_whatever_its_place_in_the_list() {
    let routes = [
        remote_subnet("10.244.0.0/16", "192.0.2.13", ROUTER),
        remote_subnet("10.244.2.64/26", "192.0.2.12", ROUTER),
        remote_subnet("10.244.2.0/24", "192.0.2.11", ROUTER),
        remote_subnet("10.244.2.99", "192.0.2.14", ROUTER),
    ];
    let mut node = node_with(&[], &routes);
    for (to, behind) in [("10.244.2.1", 11), ("10.244.2.65", 12), ("10.244.9.9", 13), ("10.244.2.99", 14)] {
        let end = node.send("a", &format!("tcp 10.244.1.2:1 > {to}:80 @gw"));
        assert!(end.contains(&format!("to 192.0.2.{behind} port")), "{to}: {end}");
    }
}

#[test]
fn a_route_has_the_networks_own_virtual_network_unless_it_names_one() {
    let mut unnamed = remote_subnet("10.244.2.0/24", "192.0.2.11", ROUTER);
    unnamed["Settings"]["IsolationId"] = json!(0);
    let mut other = remote_subnet("10.244.3.0/24", "192.0.2.11", ROUTER);
    other["Settings"]["IsolationId"] = json!(7000);
    let mut node = node_with(&[], &[unnamed, other]);
    node.check(&[
        ("a", "tcp 10.244.1.2:1 > 10.244.2.9:80 @gw", &wrapped(5000, "192.0.2.11", "02-00-00-00-0B-02 | 10.244.1.2:1 > 10.244.2.9:80")),
        ("a", "tcp 10.244.1.2:1 > 10.244.3.9:80 @gw", &wrapped(7000, "192.0.2.11", "02-00-00-00-0B-02 | 10.244.1.2:1 > 10.244.3.9:80")),
    ]);
}

#[test]
fn routes_come_and_go_with_the_document() {
    let mut node = node_with(&[], &[remote_subnet("10.244.2.0/24", "192.0.2.11", ROUTER)]);
    let packet = "udp 10.244.1.2:1 > 10.244.2.9:2 @gw";
    assert!(node.send("a", packet).contains("to 192.0.2.11"));
    put(&mut node, &[remote_subnet("10.244.2.0/24", "192.0.2.12", ROUTER)]);
    assert!(node.send("a", packet).contains("to 192.0.2.12"), "an established flow follows");
    put(&mut node, &[]);
    node.check(&[("a", packet, "uplink: host > gw | 10.244.1.2:1 > 10.244.2.9:2")]);
}

#[test]
fn the_node_reaches_endpoints_of_other_nodes_unless_the_build_cannot() {
    let routes = [remote_subnet("10.244.2.0/24", "192.0.2.11", ROUTER)];
    let packet = "tcp 192.0.2.10:1000 > 10.244.2.9:80 @02-00-00-00-0A-01";
    let mut node = node_with(&[], &routes);
    node.check(&[
        ("host", "who 10.244.2.9 tell 192.0.2.10", "is at router net"),
        ("host", packet, &wrapped(5000, "192.0.2.11", "02-00-00-00-0B-02 | 192.0.2.10:1000 > 10.244.2.9:80")),
        (
            "tunnel",
            "ack 10.244.2.9:80 > 192.0.2.10:1000 vni 5000 as 02-00-00-00-0B-02 @02-00-00-00-0A-01",
            "host: 02-00-00-00-0B-02 > host | 10.244.2.9:80 > 192.0.2.10:1000",
        ),
    ]);
    assert!(node.host_routes("net").contains(&"10.244.2.0/24".to_owned()));

    let mut node = node_with(&[Limit::OverlayNodeLocalPodsOnly], &routes);
    node.check(&[
        ("host", packet, "uplink: host > router net | 192.0.2.10:1000 > 10.244.2.9:80"),
        ("host", "tcp 192.0.2.10:1000 > 10.244.1.2:80 @a", "a: host > a | 192.0.2.10:1000 > 10.244.1.2:80"),
        ("a", "tcp 10.244.1.2:1 > 10.244.2.9:80 @gw", &wrapped(5000, "192.0.2.11", "02-00-00-00-0B-02 | 10.244.1.2:1 > 10.244.2.9:80")),
    ]);
    assert_eq!(node.host_routes("net"), ["10.244.1.0/24", "fd21::/64"]);
}
