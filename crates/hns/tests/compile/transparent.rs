//! Transparent: on the wire as they are.

use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network};

fn transparent() -> Node {
    let mut node = Node::new();
    node.network(&network("Transparent", "net", &[], json!([])));
    node.endpoint("net", &endpoint("a", 2, &[], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["192.0.2.51"], json!([])));
    node
}

#[test]
fn by_hardware_address_and_with_their_own() {
    transparent().check(&[
        ("a", "tcp 192.0.2.50:1000 > 192.0.2.51:80 @b", "b: a > b | 192.0.2.50:1000 > 192.0.2.51:80"),
        ("a", "tcp 192.0.2.50:1000 > 192.0.2.20:80 @peer", "uplink: a > peer | 192.0.2.50:1000 > 192.0.2.20:80"),
        ("uplink", "ack 192.0.2.20:80 > 192.0.2.50:1000 as peer @a", "a: peer > a | 192.0.2.20:80 > 192.0.2.50:1000"),
        ("uplink", "tcp [fd01::20]:1 > [fd01::51]:80 as peer @b", "b: peer > b | [fd01::20]:1 > [fd01::51]:80"),
        ("uplink", "udp 192.0.2.20:1 > 192.0.2.77:2 as peer @02-00-00-00-00-77", "drop no-route"),
    ]);
}

#[test]
fn the_node_and_its_endpoints() {
    transparent().check(&[
        ("host", "tcp 192.0.2.10:1 > 192.0.2.51:80 @b", "b: host > b | 192.0.2.10:1 > 192.0.2.51:80"),
        ("a", "tcp 192.0.2.50:1 > 192.0.2.10:22 @host", "host: a > host | 192.0.2.50:1 > 192.0.2.10:22"),
        ("a", "who 192.0.2.10 tell 192.0.2.50", "is at host"),
    ]);
    assert!(transparent().host_routes("net").is_empty(), "they are on the link, or somebody routes to them");
}

#[test]
fn questions_and_groups_reach_everybody() {
    transparent().check(&[
        ("a", "who 192.0.2.51 tell 192.0.2.50", "flood b, host, uplink"),
        ("uplink", "who 192.0.2.50 tell 192.0.2.20 as peer", "flood a, b, host"),
        ("uplink", "who fd01::50 tell fd01::20 as peer", "flood a, b, host"),
        ("host", "who 192.0.2.50 tell 192.0.2.10", "flood a, b, uplink"),
        ("a", "udp 0.0.0.0:68 > 255.255.255.255:67 @all", "flood b, host, uplink"),
        ("host", "udp 192.0.2.10:1 > 255.255.255.255:2 @all", "flood a, b, uplink"),
        ("a", "other @all", "flood b, host, uplink"),
        ("a", "other @peer", "uplink: a > peer | other"),
    ]);
}
