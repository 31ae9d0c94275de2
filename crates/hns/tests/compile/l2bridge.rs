//! L2Bridge: on the underlay, behind the node's hardware address.

use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network, outbound_nat};

/// A network whose gateway is the node, with endpoints `a` and `b`.
fn bridge() -> Node {
    let mut node = Node::new();
    node.network(&network("L2Bridge", "net", &[("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node
}

#[test]
fn between_neighbours() {
    bridge().check(&[
        ("a", "who 10.1.0.3 tell 10.1.0.2", "is at b"),
        ("a", "who fd10::3 tell fd10::2", "is at b"),
        ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", "b: a > b | 10.1.0.2:1000 > 10.1.0.3:80"),
        ("b", "ack 10.1.0.3:80 > 10.1.0.2:1000 @a", "a: b > a | 10.1.0.3:80 > 10.1.0.2:1000"),
        ("a", "echo fd10::2 > fd10::3 @b", "b: a > b | fd10::2 > fd10::3"),
        // By address, whatever hardware address the sender remembers.
        ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @gw", "b: a > b | 10.1.0.2:1 > 10.1.0.3:2"),
    ]);
}

#[test]
fn onto_the_wire_under_the_nodes_hardware_address() {
    bridge().check(&[
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.20:80 @peer", "uplink: host > peer | 10.1.0.2:1000 > 192.0.2.20:80"),
        ("uplink", "ack 192.0.2.20:80 > 10.1.0.2:1000 as peer @host", "a: peer > a | 192.0.2.20:80 > 10.1.0.2:1000"),
        ("uplink", "tcp [fd01::20]:1000 > [fd10::3]:80 as peer @host", "b: peer > b | [fd01::20]:1000 > [fd10::3]:80"),
        ("a", "who 10.1.0.77 tell 10.1.0.2", "uplink: host > all | who 10.1.0.77 tell host 10.1.0.2"),
    ]);
}

#[test]
fn the_wire_learns_the_nodes_hardware_address_only() {
    bridge().check(&[
        ("uplink", "who 10.1.0.2 tell 192.0.2.20 as peer", "is at host"),
        ("uplink", "who fd10::3 tell fd01::20 as peer", "is at host"),
    ]);
}

#[test]
fn the_node_reaches_its_endpoints_and_they_reach_it() {
    bridge().check(&[
        ("host", "who 10.1.0.2 tell 192.0.2.10", "is at a"),
        ("host", "tcp 192.0.2.10:1000 > 10.1.0.2:80 @a", "a: host > a | 192.0.2.10:1000 > 10.1.0.2:80"),
        ("a", "who 192.0.2.10 tell 10.1.0.2", "is at host"),
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.10:22 @host", "host: a > host | 10.1.0.2:1000 > 192.0.2.10:22"),
        ("a", "tcp [fd10::2]:1000 > [fd01::10]:22 @host", "host: a > host | [fd10::2]:1000 > [fd01::10]:22"),
    ]);
}

#[test]
fn what_the_node_sends_to_endpoints_of_other_nodes_is_routed() {
    let mut node = bridge();
    let mut remote = endpoint("r", 9, &["192.0.2.20"], json!([]));
    remote["Flags"] = json!(1);
    node.endpoint("net", &remote);
    node.check(&[
        // As a service leaves it, whose virtual address is behind the gateway.
        ("host", "tcp 192.0.2.10:1000 > 192.0.2.20:80 @gw", "uplink: host > peer | 192.0.2.10:1000 > 192.0.2.20:80"),
        ("uplink", "ack 192.0.2.20:80 > 192.0.2.10:1000 as peer @host", "host: peer > host | 192.0.2.20:80 > 192.0.2.10:1000"),
        // What it routes for others goes where it says, and what comes from the wire is its to route.
        ("host", "tcp 10.1.0.2:1000 > 192.0.2.20:80 @gw", "uplink: host > gw | 10.1.0.2:1000 > 192.0.2.20:80"),
        ("uplink", "tcp 198.51.100.7:1 > 192.0.2.20:80 as gw @host", "host: gw > host | 198.51.100.7:1 > 192.0.2.20:80"),
    ]);
}

#[test]
fn a_gateway_off_the_link_is_the_node() {
    let mut node = bridge();
    node.check(&[
        ("a", "who 10.1.0.1 tell 10.1.0.2", "is at host"),
        ("a", "who fd10::1 tell fd10::2", "is at host"),
        ("a", "tcp 10.1.0.2:1000 > 198.51.100.7:443 @host", "host: a > host | 10.1.0.2:1000 > 198.51.100.7:443"),
    ]);
    assert_eq!(node.host_routes("net"), ["10.1.0.0/24", "fd10::/64"]);
}

#[test]
fn a_gateway_on_the_link_is_whoever_answers_there() {
    let mut node = Node::new();
    node.network(&network("L2Bridge", "net", &[("192.0.2.0/24", "192.0.2.1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["192.0.2.50"], json!([])));
    node.check(&[
        ("a", "who 192.0.2.1 tell 192.0.2.50", "uplink: host > all | who 192.0.2.1 tell host 192.0.2.50"),
        ("a", "tcp 192.0.2.50:1 > 198.51.100.7:443 @gw", "uplink: host > gw | 192.0.2.50:1 > 198.51.100.7:443"),
        ("uplink", "who 192.0.2.50 tell 192.0.2.1 as gw", "is at host"),
        ("host", "tcp 192.0.2.10:1 > 192.0.2.50:80 @a", "a: host > a | 192.0.2.10:1 > 192.0.2.50:80"),
    ]);
    assert!(node.host_routes("net").is_empty(), "the link is the node's already");
}

#[test]
fn groups_leave_by_the_wire_and_arrive_at_the_node() {
    bridge().check(&[
        ("a", "udp 10.1.0.2:5353 > 224.0.0.251:5353 @01-00-5E-00-00-FB", "flood host, uplink"),
        ("uplink", "udp 192.0.2.20:5353 > 224.0.0.251:5353 as peer @01-00-5E-00-00-FB", "flood host"),
    ]);
}

#[test]
fn a_virtual_address_is_answered_for_as_long_as_somebody_has_it() {
    let mut node = bridge();
    for (name, last, address) in [("c", 4, "10.1.0.4"), ("d", 5, "10.1.0.5")] {
        node.endpoint("net", &endpoint(name, last, &[address], outbound_nat(json!({"VirtualIP": "192.0.2.99"}))));
    }
    let (question, answer) = ("who 192.0.2.99 tell 192.0.2.20 as peer", "is at host");
    node.check(&[("uplink", question, answer)]);
    node.remove_endpoint("c");
    node.check(&[("uplink", question, answer)]);
    node.remove_endpoint("d");
    node.check(&[("uplink", question, "host: peer > all | who 192.0.2.99 tell peer 192.0.2.20")]);
}

#[test]
fn an_endpoint_that_is_gone_is_nobody_s() {
    let mut node = bridge();
    node.remove_endpoint("b");
    node.check(&[
        ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @peer", "uplink: host > peer | 10.1.0.2:1 > 10.1.0.3:2"),
        ("uplink", "who 10.1.0.3 tell 192.0.2.20 as peer", "host: peer > all | who 10.1.0.3 tell peer 192.0.2.20"),
    ]);
}
