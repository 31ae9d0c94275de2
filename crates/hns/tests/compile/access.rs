//! What access lists are tested with: two endpoints on an L2Bridge network, and how packets between them end.

use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, network, policy};

/// The subnets of the network.
pub(crate) const SUBNETS: [(&str, &str); 2] = [("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")];

/// The endpoint `a`, at 10.1.0.2 and fd10::2, with these policies.
pub(crate) fn a(policies: Value) -> Value {
    endpoint("a", 2, &["10.1.0.2", "fd10::2"], policies)
}

/// A network with these policies, on which `a` has those, and `b`, at 10.1.0.3 and fd10::3, and `c`, at 10.1.0.4 and fd10::4, have none.
pub(crate) fn node(of_network: Value, of_a: Value) -> Node {
    let mut node = Node::new();
    node.network(&network("L2Bridge", "net", &SUBNETS, of_network));
    node.endpoint("net", &a(of_a));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node.endpoint("net", &endpoint("c", 4, &["10.1.0.4", "fd10::4"], json!([])));
    node
}

/// One `ACL`.
pub(crate) fn acl(settings: Value) -> Value {
    policy("ACL", settings)
}

/// Says how packets end: `true` passes. All are sent before anything is compared.
#[track_caller]
pub(crate) fn judge(node: &mut Node, table: &[(&str, &str, bool)]) {
    let line = |from: &str, packet: &str, passes: bool| format!("{from}: {packet} {}", if passes { "passes" } else { "is blocked" });
    let mut found = Vec::new();
    for (from, packet, _) in table {
        let end = node.send(from, packet);
        assert!(!end.starts_with("drop") || end.starts_with("drop acl-block"), "{packet}: {end}");
        found.push(line(from, packet, !end.starts_with("drop")));
    }
    let expected: Vec<String> = table.iter().map(|(from, packet, passes)| line(from, packet, *passes)).collect();
    assert!(found == expected, "\nexpected:\n{}\n\nfound:\n{}\n", expected.join("\n"), found.join("\n"));
}
