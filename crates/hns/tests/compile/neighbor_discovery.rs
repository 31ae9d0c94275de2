//! `NeighborDiscovery`: neighbours that are known beforehand.

use serde_json::{Value, json};

use crate::access::{SUBNETS, a};
use crate::bench::Node;
use crate::documents::{endpoint, network, overlay, policy};
use crate::frames::mac;

fn known(prefix: &str, last: u8) -> Value {
    let settings = json!({"TargetIpPrefix": prefix, "SenderIpAddress": "", "SenderMacAddress": format!("00-15-5D-00-00-{last:02X}")});
    policy("NeighborDiscovery", settings)
}

#[test]
fn endpoints_are_told_the_address() {
    let policies = json!([known("10.7.0.0/16", 0xe1), known("10.7.7.0/24", 0xe2), known("fd77::/64", 0xe1), known("10.1.0.0/24", 0xe1)]);
    for network_type in ["L2Bridge", "Overlay", "NAT"] {
        let mut node = Node::new();
        node.names.put("one", mac(0xe1));
        node.names.put("two", mac(0xe2));
        node.network(&match network_type {
            "Overlay" => overlay("net", 5000, &SUBNETS, policies.clone()),
            other => network(other, "net", &SUBNETS, policies.clone()),
        });
        node.network(&network("L2Bridge", "other", &[("10.2.0.0/24", "10.2.0.1")], json!([])));
        node.endpoint("net", &a(json!([])));
        node.endpoint("net", &endpoint("b", 3, &["10.1.0.3"], json!([])));
        node.endpoint("other", &endpoint("o", 9, &["10.2.0.9"], json!([])));
        node.check(&[
            ("a", "who 10.7.0.9 tell 10.1.0.2", "is at one"),
            ("a", "who 10.7.7.9 tell 10.1.0.2", "is at two"),
            ("a", "who fd77::9 tell fd10::2", "is at one"),
            // Who is there answers for himself.
            ("a", "who 10.1.0.3 tell 10.1.0.2", "is at b"),
            ("a", "who 10.1.0.99 tell 10.1.0.2", "is at one"),
            // Endpoints of another network on the same adapter ask the wire.
            ("o", "who 10.7.0.9 tell 10.2.0.9", "uplink: host > all | who 10.7.0.9 tell host 10.2.0.9"),
        ]);
    }
}
