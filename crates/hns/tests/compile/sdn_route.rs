//! `SDNRoute`: where an endpoint's packets for a prefix go.

use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, network, overlay, policy};

const SUBNETS: [(&str, &str); 2] = [("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")];

fn route(prefix: &str, next_hop: &str) -> Value {
    policy("SDNRoute", json!({"DestinationPrefix": prefix, "NextHop": next_hop, "NeedEncap": true}))
}

fn node(network: &Value) -> Node {
    let mut node = Node::new();
    node.network(network);
    let routes = json!([
        route("192.0.2.20/32", "192.0.2.10"),
        route("fd01::20", "fd01::10"),
        route("10.96.0.0/12", ""),
        route("192.0.2.99", "192.0.2.98")
    ]);
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], routes));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node
}

#[test]
fn to_the_node_by_one_of_its_addresses() {
    for document in [network("L2Bridge", "net", &SUBNETS, json!([])), overlay("net", 5000, &SUBNETS, json!([]))] {
        let mut node = node(&document);
        node.check(&[
            ("a", "udp 10.1.0.2:1 > 192.0.2.20:2 @peer", "host: a > host | 10.1.0.2:1 > 192.0.2.20:2"),
            ("a", "udp [fd10::2]:1 > [fd01::20]:2 @peer", "host: a > host | [fd10::2]:1 > [fd01::20]:2"),
            // Only for this sender and this prefix.
            ("b", "udp 10.1.0.3:1 > 192.0.2.20:2 @peer", "uplink: host > peer | 10.1.0.3:1 > 192.0.2.20:2"),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", "b: a > b | 10.1.0.2:1 > 10.1.0.3:2"),
        ]);
        let end = node.send("a", "udp 10.1.0.2:1 > 192.0.2.99:2 @peer");
        assert!(end.starts_with("drop no-route by forward/from-nic/a 00-15-5D-00-00-02 SDNRoute 4"), "{end}");
    }
}

#[test]
fn without_a_next_hop_as_the_network_forwards() {
    node(&network("L2Bridge", "net", &SUBNETS, json!([]))).check(&[(
        "a",
        "tcp 10.1.0.2:1 > 10.96.0.10:80 @host",
        "host: a > host | 10.1.0.2:1 > 10.96.0.10:80",
    )]);
}
