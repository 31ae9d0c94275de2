//! `SourceMacAddress`: the hardware address that a network's endpoints have on the wire.

use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, network, policy};
use crate::frames::mac;

fn node(network_type: &str, policies: Value) -> Node {
    let mut node = Node::new();
    node.names.put("wire", mac(0xee));
    node.network(&network(network_type, "net", &[("192.0.2.0/24", "192.0.2.1"), ("fd01::/64", "fd01::1")], policies));
    node.endpoint("net", &endpoint("a", 2, &["192.0.2.40", "fd01::40"], json!([])));
    node
}

#[test]
fn frames_leave_with_it_and_the_wire_is_told_it() {
    for network_type in ["L2Bridge", "L2Tunnel"] {
        for (policies, on_wire) in
            [(json!([]), "host"), (json!([policy("SourceMacAddress", json!({"SourceMacAddress": "00-15-5D-00-00-EE"}))]), "wire")]
        {
            node(network_type, policies).check(&[
                ("a", "udp 192.0.2.40:1 > 192.0.2.20:2 @peer", &format!("uplink: {on_wire} > peer | 192.0.2.40:1 > 192.0.2.20:2")),
                ("a", "udp [fd01::40]:1 > [fd01::20]:2 @peer", &format!("uplink: {on_wire} > peer | [fd01::40]:1 > [fd01::20]:2")),
                ("uplink", "who 192.0.2.40 tell 192.0.2.20 as peer", &format!("is at {on_wire}")),
                ("uplink", "who fd01::40 tell fd01::20 as peer", &format!("is at {on_wire}")),
                ("a", "who 192.0.2.20 tell 192.0.2.40", &format!("uplink: {on_wire} > all | who 192.0.2.20 tell {on_wire} 192.0.2.40")),
                ("uplink", &format!("udp 192.0.2.20:2 > 192.0.2.40:1 as peer @{on_wire}"), "a: peer > a | 192.0.2.20:2 > 192.0.2.40:1"),
            ]);
        }
    }
}
