//! NAT, Internal and Private: a switch of its own, without an adapter.

use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network};

fn internal(network_type: &str) -> Node {
    let mut node = Node::new();
    node.network(&network(network_type, "net", &[("172.20.0.0/24", "172.20.0.1"), ("fd20::/64", "fd20::1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["172.20.0.2", "fd20::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["172.20.0.3", "fd20::3"], json!([])));
    node
}

#[test]
fn neighbours_reach_each_other() {
    for network_type in ["NAT", "ICS", "Internal", "Private"] {
        internal(network_type).check(&[
            ("a", "who 172.20.0.3 tell 172.20.0.2", "is at b"),
            ("a", "who fd20::3 tell fd20::2", "is at b"),
            ("a", "tcp 172.20.0.2:1000 > 172.20.0.3:80 @b", "b: a > b | 172.20.0.2:1000 > 172.20.0.3:80"),
            ("b", "ack 172.20.0.3:80 > 172.20.0.2:1000 @a", "a: b > a | 172.20.0.3:80 > 172.20.0.2:1000"),
            ("a", "echo fd20::2 > fd20::3 @b", "b: a > b | fd20::2 > fd20::3"),
            ("a", "other @b", "b: a > b | other"),
        ]);
    }
}

#[test]
fn the_node_is_the_gateway() {
    for network_type in ["NAT", "Internal"] {
        internal(network_type).check(&[
            ("a", "who 172.20.0.1 tell 172.20.0.2", "is at gateway net"),
            ("a", "who fd20::1 tell fd20::2", "is at gateway net"),
            (
                "a",
                "tcp 172.20.0.2:1 > 198.51.100.7:443 @00-15-5D-00-00-A0",
                "gateway net: a > gateway net | 172.20.0.2:1 > 198.51.100.7:443",
            ),
            ("gateway net", "ack 198.51.100.7:443 > 172.20.0.2:1 @a", "a: gateway net > a | 198.51.100.7:443 > 172.20.0.2:1"),
            ("gateway net", "who 172.20.0.3 tell 172.20.0.1", "is at b"),
            ("a", "udp 172.20.0.2:68 > 255.255.255.255:67 @all", "flood b, gateway net"),
        ]);
    }
}

#[test]
fn a_private_network_is_alone() {
    internal("Private").check(&[
        ("a", "who 172.20.0.1 tell 172.20.0.2", "drop no-route"),
        ("a", "tcp 172.20.0.2:1 > 198.51.100.7:443 @gw", "drop no-route"),
        ("a", "udp 172.20.0.2:68 > 255.255.255.255:67 @all", "flood b"),
    ]);
}

#[test]
fn two_networks_do_not_meet() {
    let mut node = internal("NAT");
    node.network(&network("NAT", "other", &[("172.21.0.0/24", "172.21.0.1")], json!([])));
    node.endpoint("other", &endpoint("c", 4, &["172.21.0.4"], json!([])));
    node.check(&[
        ("a", "tcp 172.20.0.2:1 > 172.21.0.4:80 @c", "drop no-route"),
        ("a", "who 172.21.0.4 tell 172.20.0.2", "drop no-route"),
        ("host", "tcp 192.0.2.10:1 > 172.20.0.2:80 @a", "uplink: host > a | 192.0.2.10:1 > 172.20.0.2:80"),
    ]);
}
