//! Overlay: VXLAN between nodes, by policy and without flooding.

use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, outbound_nat, overlay, policy, remote_subnet};

/// A network with endpoints `a` and `b` here, and 10.244.2.0/24 and fd22::/64 behind 192.0.2.11.
fn node() -> Node {
    with_policies(&[])
}

fn with_policies(more: &[Value]) -> Node {
    let mut node = Node::new();
    let mut policies = vec![
        remote_subnet("10.244.2.0/24", "192.0.2.11", "02-00-00-00-0B-02"),
        remote_subnet("fd22::/64", "192.0.2.11", "02-00-00-00-0B-02"),
        policy("DrMacAddress", json!({"Address": "02-00-00-00-0A-01"})),
    ];
    policies.extend(more.iter().cloned());
    node.network(&overlay("net", 5000, &[("10.244.1.0/24", "10.244.1.1"), ("fd21::/64", "fd21::1")], json!(policies)));
    node.endpoint("net", &endpoint("a", 2, &["10.244.1.2", "fd21::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["10.244.1.3", "fd21::3"], json!([])));
    node
}

#[test]
fn between_neighbours_nothing_is_wrapped() {
    node().check(&[
        ("a", "who 10.244.1.3 tell 10.244.1.2", "is at b"),
        ("a", "tcp 10.244.1.2:1000 > 10.244.1.3:80 @b", "b: a > b | 10.244.1.2:1000 > 10.244.1.3:80"),
        ("b", "ack 10.244.1.3:80 > 10.244.1.2:1000 @a", "a: b > a | 10.244.1.3:80 > 10.244.1.2:1000"),
        ("a", "tcp [fd21::2]:1000 > [fd21::3]:80 @b", "b: a > b | [fd21::2]:1000 > [fd21::3]:80"),
    ]);
}

#[test]
fn the_distributed_router_is_the_gateway() {
    node().check(&[
        ("a", "who 10.244.1.1 tell 10.244.1.2", "is at router net"),
        ("a", "who fd21::1 tell fd21::2", "is at router net"),
        ("a", "who 10.244.2.9 tell 10.244.1.2", "is at router net"),
        ("a", "who 10.244.1.77 tell 10.244.1.2", "drop no-route"),
    ]);
}

#[test]
fn what_arrives_of_the_virtual_network_is_delivered_and_answered_into_its_tunnel() {
    node().check(&[
        (
            "tunnel",
            "tcp 10.244.2.9:1000 > 10.244.1.2:80 vni 5000 as 02-00-00-00-0B-02 @02-00-00-00-0A-01",
            "a: 02-00-00-00-0B-02 > a | 10.244.2.9:1000 > 10.244.1.2:80",
        ),
        (
            "a",
            "ack 10.244.1.2:80 > 10.244.2.9:1000 @02-00-00-00-0A-01",
            "tunnel VXLAN of 5000 from 192.0.2.10 to 192.0.2.11 port 4789: router net > 02-00-00-00-0B-02 | 10.244.1.2:80 > 10.244.2.9:1000",
        ),
        // The other node itself, which no policy speaks of.
        (
            "tunnel",
            "tcp 10.244.2.0:1000 > 10.244.1.2:80 vni 5000 as 02-00-00-00-0B-02 @02-00-00-00-0A-01",
            "a: 02-00-00-00-0B-02 > a | 10.244.2.0:1000 > 10.244.1.2:80",
        ),
        ("tunnel", "tcp 10.244.2.9:1000 > 10.244.1.2:80 vni 5001 @a", "drop unknown-vni by encapsulation/vni/unknown"),
        ("tunnel", "tcp 10.244.2.9:1000 > 10.244.1.77:80 vni 5000 @a", "drop no-route"),
        ("tunnel", "tcp 10.244.2.9:1000 > 10.244.2.8:80 vni 5000 @a", "drop no-route"),
        ("tunnel", "tcp 10.244.2.9:1000 > 198.51.100.7:80 vni 5000 @a", "drop no-route"),
    ]);
}

#[test]
fn the_node_and_its_endpoints_need_no_tunnel() {
    let mut node = node();
    node.check(&[
        ("host", "who 10.244.1.2 tell 192.0.2.10", "is at a"),
        ("host", "tcp 192.0.2.10:1000 > 10.244.1.2:80 @a", "a: host > a | 192.0.2.10:1000 > 10.244.1.2:80"),
        ("a", "ack 10.244.1.2:80 > 192.0.2.10:1000 @host", "host: a > host | 10.244.1.2:80 > 192.0.2.10:1000"),
        ("a", "tcp [fd21::2]:1 > [fd01::10]:22 @02-00-00-00-0A-01", "host: a > host | [fd21::2]:1 > [fd01::10]:22"),
        ("uplink", "who 10.244.1.2 tell 192.0.2.20 as peer", "host: peer > all | who 10.244.1.2 tell peer 192.0.2.20"),
    ]);
    assert_eq!(node.host_routes("net"), ["10.244.1.0/24", "fd21::/64", "10.244.2.0/24", "fd22::/64"]);
}

#[test]
fn what_no_policy_covers_leaves_as_it_is() {
    node().check(&[
        ("a", "tcp 10.244.1.2:1 > 198.51.100.7:443 @02-00-00-00-0A-01", "uplink: host > gw | 10.244.1.2:1 > 198.51.100.7:443"),
        ("a", "tcp 10.244.1.2:1 > 192.0.2.20:443 @02-00-00-00-0A-01", "uplink: host > peer | 10.244.1.2:1 > 192.0.2.20:443"),
        ("a", "tcp 10.244.1.2:1 > 192.0.2.33:443 @02-00-00-00-0A-01", "asks for 192.0.2.33"),
        ("a", "udp 10.244.1.2:1 > 255.255.255.255:67 @all", "drop group-not-forwarded"),
        ("a", "other @b", "drop not-ip by guard/source/own"),
    ]);
}

#[test]
fn an_endpoint_of_another_node_is_where_its_provider_address_says() {
    let mut node = node();
    let mut remote =
        endpoint("r", 9, &["10.244.1.9", "fd21::9"], json!([policy("ProviderAddress", json!({"ProviderAddress": "192.0.2.12"}))]));
    remote["Flags"] = json!(1);
    node.endpoint("net", &remote);
    let mut nowhere = endpoint("n", 8, &["10.244.1.8"], json!([]));
    nowhere["Flags"] = json!(1);
    node.endpoint("net", &nowhere);
    let (wrapped, asked) = ("tunnel VXLAN of 5000 from 192.0.2.10 to 192.0.2.12 port 4789", "who 10.244.1.9 tell 10.244.1.2");
    node.check(&[
        ("a", asked, "is at r"),
        ("a", "who fd21::9 tell fd21::2", "is at r"),
        ("a", "tcp 10.244.1.2:1 > 10.244.1.9:80 @r", &format!("{wrapped}: a > r | 10.244.1.2:1 > 10.244.1.9:80")),
        ("a", "tcp [fd21::2]:1 > [fd21::9]:80 @r", &format!("{wrapped}: a > r | [fd21::2]:1 > [fd21::9]:80")),
        // Without a provider address it is a name for an address, and nothing more.
        ("a", "who 10.244.1.8 tell 10.244.1.2", "drop no-route"),
    ]);
    node.remove_endpoint("r");
    node.check(&[("a", asked, "drop no-route")]);
}

#[test]
fn an_endpoint_of_another_node_is_reached_through_the_router_there() {
    let mut node = node();
    let provider = json!([policy("ProviderAddress", json!({"ProviderAddress": "192.0.2.11"}))]);
    let mut remote = endpoint("r", 9, &["10.244.2.9", "fd22::9"], provider);
    remote["Flags"] = json!(1);
    node.endpoint("net", &remote);
    let wrapped = "tunnel VXLAN of 5000 from 192.0.2.10 to 192.0.2.11 port 4789: router net > 02-00-00-00-0B-02";
    node.check(&[
        ("a", "tcp 10.244.1.2:1 > 10.244.2.9:80 @r", &format!("{wrapped} | 10.244.1.2:1 > 10.244.2.9:80")),
        ("a", "tcp [fd21::2]:1 > [fd22::9]:80 @r", &format!("{wrapped} | [fd21::2]:1 > [fd22::9]:80")),
    ]);
}

#[test]
fn port_and_provider_address_are_the_networks() {
    let mut node = with_policies(&[policy("VxlanPort", json!({"Port": 8472}))]);
    node.check(&[(
        "a",
        "tcp 10.244.1.2:1 > 10.244.2.9:80 @02-00-00-00-0A-01",
        "tunnel 192.0.2.10:8472 VXLAN of 5000 from 192.0.2.10 to 192.0.2.11 port 8472: router net > 02-00-00-00-0B-02 | 10.244.1.2:1 > 10.244.2.9:80",
    )]);
    let mut node = with_policies(&[policy("ProviderAddress", json!({"ProviderAddress": "fd01::10"}))]);
    let end = node.send("a", "tcp 10.244.1.2:1 > 10.244.2.9:80 @02-00-00-00-0A-01");
    assert!(end.starts_with("tunnel fd01::10:4789 VXLAN of 5000 from fd01::10 to 192.0.2.11"), "{end}");
}

#[test]
fn networks_with_the_same_addresses_do_not_meet() {
    let mut node = node();
    let route = remote_subnet("10.244.2.0/24", "192.0.2.11", "02-00-00-00-0B-02");
    node.network(&overlay("other", 6000, &[("10.244.1.0/24", "10.244.1.1")], json!([route])));
    node.endpoint("other", &endpoint("c", 4, &["10.244.1.3"], json!([])));
    node.endpoint("other", &endpoint("d", 5, &["10.244.1.5"], json!([])));
    node.check(&[
        ("d", "udp 10.244.1.5:1 > 10.244.1.3:2 @c", "c: d > c | 10.244.1.5:1 > 10.244.1.3:2"),
        ("a", "udp 10.244.1.2:1 > 10.244.1.3:2 @b", "b: a > b | 10.244.1.2:1 > 10.244.1.3:2"),
        ("tunnel", "udp 10.244.2.9:1 > 10.244.1.3:2 vni 6000 as gw @host", "c: gw > c | 10.244.2.9:1 > 10.244.1.3:2"),
        ("tunnel", "udp 10.244.2.9:1 > 10.244.1.3:2 vni 5000 as gw @host", "b: gw > b | 10.244.2.9:1 > 10.244.1.3:2"),
    ]);
}

#[test]
fn the_node_keeps_to_an_endpoint_when_its_double_goes() {
    let mut node = Node::new();
    for (name, vni, last) in [("one", 5000, 2), ("two", 6000, 3)] {
        node.network(&overlay(name, vni, &[("10.244.1.0/24", "10.244.1.1")], json!([])));
        node.endpoint(name, &endpoint("pod", last, &["10.244.1.2"], json!([])));
    }
    let packet = "tcp 192.0.2.10:1000 > 10.244.1.2:80 @peer";
    node.check(&[("host", packet, "pod: host > pod | 192.0.2.10:1000 > 10.244.1.2:80")]);
    node.remove_endpoint("pod 03");
    node.check(&[
        ("host", packet, "pod: host > pod | 192.0.2.10:1000 > 10.244.1.2:80"),
        ("host", "who 10.244.1.2 tell 192.0.2.10", "is at pod"),
    ]);
}

#[test]
fn without_a_router_of_its_own_a_network_gets_one_by_its_id() {
    let mut node = Node::new();
    node.network(&overlay("net", 5000, &[("10.244.1.0/24", "10.244.1.1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["10.244.1.2"], json!([])));
    node.check(&[("a", "who 10.244.1.1 tell 10.244.1.2", "is at router net")]);
    let (document, _) = node.place("net");
    let id = document.id.into_bytes();
    let router = hns::compile::network::overlay(document, "192.0.2.10".parse().ok()).unwrap().router_mac;
    assert_eq!(router.0, [0x00, 0x15, 0x5d, id[0], id[1], id[2]]);
}

#[test]
fn a_virtual_address_is_answered_for_on_the_wire() {
    let mut node = node();
    node.endpoint("net", &endpoint("c", 4, &["10.244.1.4"], outbound_nat(json!({"VirtualIP": "192.0.2.99"}))));
    node.check(&[
        ("c", "tcp 10.244.1.4:1000 > 198.51.100.7:443 @02-00-00-00-0A-01", "uplink: host > gw | 192.0.2.99:nat > 198.51.100.7:443"),
        ("uplink", "who 192.0.2.99 tell 192.0.2.1 as gw", "is at host"),
        ("uplink", "ack 198.51.100.7:443 > 192.0.2.99:nat as gw @host", "c: gw > c | 198.51.100.7:443 > 10.244.1.4:1000"),
    ]);
}
