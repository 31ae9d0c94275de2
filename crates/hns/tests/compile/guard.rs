//! Spoof protection: an endpoint may send only as itself.

use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network, overlay};

const SPOOFED: &str = "drop spoofed-source by guard/source/spoofed";
const SPOOFED_MAC: &str = "drop spoofed-source by guard/hardware/spoofed";

fn strict(network_type: &str) -> Node {
    let mut node = Node::new();
    let subnets = [("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")];
    node.network(&match network_type {
        "Overlay" => overlay("net", 5000, &subnets, json!([])),
        other => network(other, "net", &subnets, json!([])),
    });
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node
}

#[test]
fn where_hns_gives_out_addresses_they_are_held_to() {
    for network_type in ["L2Bridge", "L2Tunnel", "Overlay"] {
        let mut node = strict(network_type);
        node.check(&[
            ("a", "udp 10.1.0.9:1 > 10.1.0.3:2 @b", SPOOFED),
            ("a", "udp 10.1.0.3:1 > 10.1.0.3:2 @b", SPOOFED),
            ("a", "udp [fd10::9]:1 > [fd10::3]:2 @b", SPOOFED),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 as b @b", SPOOFED_MAC),
            ("a", "udp 192.0.2.10:1 > 198.51.100.7:2 @host", SPOOFED),
            ("a", "who 10.1.0.3 tell 10.1.0.9", "drop spoofed-source"),
        ]);
        for sound in ["udp 10.1.0.2:1 > 10.1.0.3:2 @b", "udp [fd10::2]:1 > [fd10::3]:2 @b", "udp [fe80::2]:1 > [fd10::3]:2 @b"] {
            assert!(!node.send("a", sound).starts_with("drop"), "{sound} on {network_type}");
        }
    }
}

#[test]
fn where_the_wire_gives_out_addresses_only_the_hardware_address_is_held_to() {
    for network_type in ["Transparent", "NAT", "Internal", "Private"] {
        let mut node = strict(network_type);
        node.check(&[
            ("a", "udp 10.1.0.9:1 > 10.1.0.3:2 @b", "b: a > b | 10.1.0.9:1 > 10.1.0.3:2"),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 as b @b", SPOOFED_MAC),
        ]);
    }
}
