//! L2Tunnel: as L2Bridge, with every packet going out to the fabric.

use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network, outbound_nat};

fn tunnel() -> Node {
    let mut node = Node::new();
    node.network(&network("L2Tunnel", "net", &[("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node
}

#[test]
fn neighbours_meet_in_the_fabric() {
    tunnel().check(&[
        ("a", "who 10.1.0.3 tell 10.1.0.2", "uplink: host > all | who 10.1.0.3 tell host 10.1.0.2"),
        ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @gw", "uplink: host > gw | 10.1.0.2:1000 > 10.1.0.3:80"),
        ("uplink", "tcp 10.1.0.2:1000 > 10.1.0.3:80 as gw @host", "b: gw > b | 10.1.0.2:1000 > 10.1.0.3:80"),
        ("b", "ack 10.1.0.3:80 > 10.1.0.2:1000 @gw", "uplink: host > gw | 10.1.0.3:80 > 10.1.0.2:1000"),
        ("uplink", "ack 10.1.0.3:80 > 10.1.0.2:1000 as gw @host", "a: gw > a | 10.1.0.3:80 > 10.1.0.2:1000"),
        ("a", "tcp [fd10::2]:1000 > [fd10::3]:80 @gw", "uplink: host > gw | [fd10::2]:1000 > [fd10::3]:80"),
        ("uplink", "tcp [fd10::2]:1000 > [fd10::3]:80 as gw @host", "b: gw > b | [fd10::2]:1000 > [fd10::3]:80"),
    ]);
}

#[test]
fn the_node_is_reached_by_the_fabric_too() {
    tunnel().check(&[
        ("a", "who 192.0.2.10 tell 10.1.0.2", "uplink: host > all | who 192.0.2.10 tell host 10.1.0.2"),
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.10:22 @gw", "uplink: host > gw | 10.1.0.2:1000 > 192.0.2.10:22"),
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.10:23 @host", "uplink: host > host | 10.1.0.2:1000 > 192.0.2.10:23"),
        ("host", "tcp 192.0.2.10:1000 > 10.1.0.2:80 @gw", "uplink: host > gw | 192.0.2.10:1000 > 10.1.0.2:80"),
        ("a", "who 10.1.0.1 tell 10.1.0.2", "uplink: host > all | who 10.1.0.1 tell host 10.1.0.2"),
    ]);
    assert!(tunnel().host_routes("net").is_empty(), "the fabric routes");
}

#[test]
fn the_node_answers_the_fabric_for_its_endpoints() {
    tunnel()
        .check(&[("uplink", "who 10.1.0.2 tell 10.1.0.1 as gw", "is at host"), ("uplink", "who fd10::3 tell fd10::1 as gw", "is at host")]);
}

#[test]
fn endpoints_of_one_name_are_each_led_to_the_fabric() {
    let mut node = Node::new();
    node.network(&network("L2Tunnel", "net", &[("10.1.0.0/24", "10.1.0.1")], json!([])));
    node.endpoint("net", &endpoint("pod", 2, &["10.1.0.2"], json!([])));
    node.endpoint("net", &endpoint("pod", 3, &["10.1.0.3"], json!([])));
    let out = "uplink: host > host | 10.1.0.2:1 > 192.0.2.10:2";
    node.check(&[("pod", "udp 10.1.0.2:1 > 192.0.2.10:2 @host", out)]);
    node.remove_endpoint("pod 03");
    node.check(&[("pod", "udp 10.1.0.2:1 > 192.0.2.10:2 @host", out)]);
}

#[test]
fn a_virtual_address_is_answered_for() {
    let mut node = tunnel();
    node.endpoint("net", &endpoint("c", 4, &["10.1.0.4"], outbound_nat(json!({"VirtualIP": "192.0.2.99"}))));
    node.check(&[
        ("c", "tcp 10.1.0.4:1000 > 198.51.100.7:443 @gw", "uplink: host > gw | 192.0.2.99:nat > 198.51.100.7:443"),
        ("uplink", "who 192.0.2.99 tell 192.0.2.1 as gw", "is at host"),
        ("uplink", "ack 198.51.100.7:443 > 192.0.2.99:nat as gw @host", "c: gw > c | 198.51.100.7:443 > 10.1.0.4:1000"),
    ]);
}
