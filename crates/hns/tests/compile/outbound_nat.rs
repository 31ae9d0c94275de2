//! `OutBoundNAT`: what leaves for the outside gets the node's address.

use hcn::policy::endpoint::EndpointPolicyType;
use hns::compile::network::Mode;
use hns::compile::support::{self, Support};
use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, network, outbound_nat, overlay, policy, remote_subnet};

/// An L2Bridge network whose endpoint `a`, at 10.1.0.2 and fd10::2, has these policies; `b` has none.
fn node_with(policies: Value) -> Node {
    let mut node = Node::new();
    node.network(&network("L2Bridge", "net", &[("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], policies));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node
}

const PLAIN: &str = "host: a > host | 10.1.0.2:1000 > 198.51.100.7:443";
const TRANSLATED: &str = "uplink: host > gw | 192.0.2.10:nat > 198.51.100.7:443";
const OUT: &str = "tcp 10.1.0.2:1000 > 198.51.100.7:443 @host";

#[test]
fn there_and_back() {
    node_with(outbound_nat(json!({}))).check(&[
        ("a", OUT, TRANSLATED),
        ("uplink", "ack 198.51.100.7:443 > 192.0.2.10:nat as gw @host", "a: gw > a | 198.51.100.7:443 > 10.1.0.2:1000"),
        ("a", "udp 10.1.0.2:5000 > 198.51.100.53:53 @host", "uplink: host > gw | 192.0.2.10:nat > 198.51.100.53:53"),
        ("uplink", "udp 198.51.100.53:53 > 192.0.2.10:nat as gw @host", "a: gw > a | 198.51.100.53:53 > 10.1.0.2:5000"),
        ("a", "echo 10.1.0.2 > 198.51.100.7 @host", "uplink: host > gw | 192.0.2.10#nat > 198.51.100.7"),
        ("uplink", "pong 198.51.100.7 > 192.0.2.10#nat as gw @host", "a: gw > a | 198.51.100.7 > 10.1.0.2"),
        // What nobody asked for is the node's.
        ("uplink", "tcp 198.51.100.8:9 > 192.0.2.10:61000 as gw @host", "host: gw > host | 198.51.100.8:9 > 192.0.2.10:nat"),
        // An endpoint without the policy leaves as it is.
        ("b", "tcp 10.1.0.3:1000 > 198.51.100.7:443 @host", "host: b > host | 10.1.0.3:1000 > 198.51.100.7:443"),
    ]);
}

#[test]
fn neighbours_on_the_link_are_outside_too() {
    node_with(outbound_nat(json!({}))).check(&[
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.20:80 @host", "uplink: host > peer | 192.0.2.10:nat > 192.0.2.20:80"),
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.33:80 @host", "asks for 192.0.2.33"),
    ]);
}

#[test]
fn never_translated() {
    node_with(json!([policy("OutBoundNAT", json!({})), policy("OutBoundNAT", json!({"Flags": 2}))])).check(&[
        ("a", "tcp 10.1.0.2:1000 > 192.0.2.10:22 @host", "host: a > host | 10.1.0.2:1000 > 192.0.2.10:22"),
        ("a", "tcp [fd10::2]:1000 > [fd01::10]:22 @host", "host: a > host | [fd10::2]:1000 > [fd01::10]:22"),
        ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", "b: a > b | 10.1.0.2:1000 > 10.1.0.3:80"),
        ("a", "tcp [fd10::2]:1000 > [fd10::3]:80 @b", "b: a > b | [fd10::2]:1000 > [fd10::3]:80"),
        ("a", "udp 10.1.0.2:1 > 224.0.0.251:5353 @01-00-5E-00-00-FB", "flood host, uplink"),
        ("a", "udp 10.1.0.2:1 > 255.255.255.255:67 @all", "flood host, uplink"),
        ("a", "udp [fd10::2]:1 > [ff02::fb]:5353 @33-33-00-00-00-FB", "flood host, uplink"),
    ]);
}

#[test]
fn what_was_asked_of_an_endpoint_is_answered_untranslated() {
    node_with(outbound_nat(json!({}))).check(&[
        ("uplink", "tcp 192.0.2.20:1000 > 10.1.0.2:80 as peer @host", "a: peer > a | 192.0.2.20:1000 > 10.1.0.2:80"),
        ("a", "ack 10.1.0.2:80 > 192.0.2.20:1000 @peer", "uplink: host > peer | 10.1.0.2:80 > 192.0.2.20:1000"),
    ]);
}

#[test]
fn exceptions_and_destinations() {
    let exceptions = ["198.51.100.0/24", "203.0.113.9", "fd77::/16"];
    for key in ["Exceptions", "ExceptionList"] {
        node_with(outbound_nat(json!({key: exceptions}))).check(&[
            ("a", OUT, PLAIN),
            ("a", "tcp 10.1.0.2:1 > 203.0.113.9:80 @host", "host: a > host | 10.1.0.2:1 > 203.0.113.9:80"),
            ("a", "tcp 10.1.0.2:1 > 203.0.113.8:80 @host", "uplink: host > gw | 192.0.2.10:nat > 203.0.113.8:80"),
        ]);
    }
    node_with(outbound_nat(json!({"Destinations": ["198.51.100.0/24", "203.0.113.9"]}))).check(&[
        ("a", OUT, TRANSLATED),
        ("a", "tcp 10.1.0.2:1 > 203.0.113.9:80 @host", "uplink: host > gw | 192.0.2.10:nat > 203.0.113.9:80"),
        ("a", "tcp 10.1.0.2:1 > 203.0.113.8:80 @host", "host: a > host | 10.1.0.2:1 > 203.0.113.8:80"),
    ]);
    let both = json!({"Destinations": ["198.51.100.0/24"], "Exceptions": ["198.51.100.7/32"]});
    node_with(outbound_nat(both)).check(&[
        ("a", OUT, PLAIN),
        ("a", "tcp 10.1.0.2:1 > 198.51.100.8:80 @host", "uplink: host > gw | 192.0.2.10:nat > 198.51.100.8:80"),
    ]);
}

#[test]
fn a_virtual_address_stands_in() {
    node_with(outbound_nat(json!({"VirtualIP": "192.0.2.99"}))).check(&[
        ("a", OUT, "uplink: host > gw | 192.0.2.99:nat > 198.51.100.7:443"),
        ("uplink", "who 192.0.2.99 tell 192.0.2.1 as gw", "is at host"),
        ("uplink", "ack 198.51.100.7:443 > 192.0.2.99:nat as gw @host", "a: gw > a | 198.51.100.7:443 > 10.1.0.2:1000"),
    ]);
    // The node's own address is answered for by the node.
    node_with(outbound_nat(json!({"VirtualIP": "192.0.2.10"}))).check(&[
        ("a", OUT, TRANSLATED),
        ("uplink", "who 192.0.2.10 tell 192.0.2.1 as gw", "host: gw > all | who 192.0.2.10 tell gw 192.0.2.1"),
    ]);
}

#[test]
fn ipv6_is_asked_for() {
    let six = "tcp [fd10::2]:1000 > [2001:db8::7]:443 @host";
    let (plain, translated) =
        ("host: a > host | [fd10::2]:1000 > [2001:db8::7]:443", "uplink: host > gw | [fd01::10]:nat > [2001:db8::7]:443");
    node_with(outbound_nat(json!({}))).check(&[("a", six, plain), ("a", OUT, TRANSLATED)]);
    for flags in [json!(2), json!("IPv6")] {
        node_with(outbound_nat(json!({"Flags": flags}))).check(&[
            ("a", six, translated),
            ("uplink", "ack [2001:db8::7]:443 > [fd01::10]:nat as gw @host", "a: gw > a | [2001:db8::7]:443 > [fd10::2]:1000"),
            ("a", OUT, PLAIN),
            ("a", "echo fd10::2 > 2001:db8::8 @host", "uplink: host > gw | fd01::10#nat > 2001:db8::8"),
        ]);
    }
    let given = outbound_nat(json!({"VirtualIP": "fd01::99"}));
    node_with(given).check(&[
        ("a", six, "uplink: host > gw | [fd01::99]:nat > [2001:db8::7]:443"),
        ("uplink", "who fd01::99 tell fd01::1 as gw", "is at host"),
        ("a", OUT, PLAIN),
    ]);
    let both = json!([policy("OutBoundNAT", json!({})), policy("OutBoundNAT", json!({"Flags": 2}))]);
    node_with(both).check(&[("a", six, translated), ("a", OUT, TRANSLATED)]);
}

#[test]
fn other_flags_change_nothing() {
    for flags in [1, 4, 5] {
        node_with(outbound_nat(json!({"Flags": flags}))).check(&[("a", OUT, TRANSLATED)]);
    }
}

#[test]
fn the_first_of_several_that_translates_decides() {
    let policies = json!([
        policy("OutBoundNAT", json!({"VirtualIP": "192.0.2.91", "Destinations": ["198.51.100.0/24"], "Exceptions": ["198.51.100.9"]})),
        policy("OutBoundNAT", json!({"VirtualIP": "192.0.2.92", "Exceptions": ["203.0.113.0/24"]})),
        policy("OutBoundNAT", json!({"VirtualIP": "192.0.2.92", "Destinations": ["203.0.113.5"]})),
    ]);
    let mut node = node_with(policies);
    for (to, source) in [("198.51.100.7", 91), ("198.51.100.9", 92), ("192.0.2.20", 92), ("203.0.113.5", 92)] {
        let end = node.send("a", &format!("tcp 10.1.0.2:1 > {to}:80 @host"));
        assert!(end.contains(&format!("| 192.0.2.{source}:nat > {to}:80")), "{to}: {end}");
    }
    node.check(&[
        ("a", "tcp 10.1.0.2:1 > 203.0.113.6:80 @host", "host: a > host | 10.1.0.2:1 > 203.0.113.6:80"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:80 @b", "b: a > b | 10.1.0.2:1 > 10.1.0.3:80"),
        ("uplink", "who 192.0.2.91 tell 192.0.2.1 as gw", "is at host"),
        ("uplink", "who 192.0.2.92 tell 192.0.2.1 as gw", "is at host"),
    ]);
}

#[test]
fn only_so_many_ports_towards_one_place() {
    let mut node = node_with(outbound_nat(json!({"MaxPortPoolUsage": 3})));
    for port in 1..=3 {
        assert_eq!(node.send("a", &format!("tcp 10.1.0.2:{port} > 198.51.100.7:443 @host")), TRANSLATED);
    }
    node.check(&[
        ("a", "tcp 10.1.0.2:4 > 198.51.100.7:443 @host", "drop no-nat-ports by nat/OutBoundNAT 1/as 192.0.2.10"),
        ("a", "tcp 10.1.0.2:4 > 198.51.100.7:444 @host", "uplink: host > gw | 192.0.2.10:nat > 198.51.100.7:444"),
        ("a", "ack 10.1.0.2:1 > 198.51.100.7:443 @host", TRANSLATED),
    ]);
}

#[test]
fn on_every_mode_that_forwards_by_address() {
    for network_type in ["L2Bridge", "L2Tunnel", "Overlay"] {
        let mut node = Node::new();
        let subnets = [("10.1.0.0/24", "10.1.0.1")];
        node.network(&match network_type {
            "Overlay" => overlay("net", 5000, &subnets, json!([])),
            other => network(other, "net", &subnets, json!([])),
        });
        node.endpoint("net", &endpoint("a", 2, &["10.1.0.2"], outbound_nat(json!({}))));
        node.check(&[
            ("a", OUT, TRANSLATED),
            ("uplink", "ack 198.51.100.7:443 > 192.0.2.10:nat as gw @host", "a: gw > a | 198.51.100.7:443 > 10.1.0.2:1000"),
        ]);
    }
}

#[test]
fn refused_where_it_could_not_work() {
    use Mode::{Internal, L2Bridge, L2Tunnel, Nat, Overlay, Private, Transparent};
    let refused = |mode: &Mode| support::endpoint(&EndpointPolicyType::OutBoundNat, *mode) == Support::Refused;
    let modes: Vec<Mode> = [L2Bridge, L2Tunnel, Overlay, Transparent, Nat, Internal, Private].into_iter().filter(refused).collect();
    assert_eq!(modes, [Transparent, Internal, Private]);
}

#[test]
fn on_networks_without_an_adapter_the_node_translates() {
    let mut node = Node::new();
    node.network(&network("NAT", "net", &[("172.20.0.0/24", "172.20.0.1")], json!([])));
    node.endpoint("net", &endpoint("a", 2, &["172.20.0.2"], outbound_nat(json!({}))));
    node.check(&[(
        "a",
        "tcp 172.20.0.2:1 > 198.51.100.7:443 @00-15-5D-00-00-A0",
        "gateway net: a > gateway net | 172.20.0.2:1 > 198.51.100.7:443",
    )]);
}

#[test]
fn an_overlay_excepts_what_its_tunnels_lead_to() {
    let mut node = Node::new();
    let routes = json!([remote_subnet("10.244.2.0/24", "192.0.2.11", "02-00-00-00-0B-02")]);
    node.network(&overlay("net", 5000, &[("10.244.1.0/24", "10.244.1.1")], routes));
    node.endpoint("net", &endpoint("a", 2, &["10.244.1.2"], outbound_nat(json!({"ExceptionList": ["10.244.0.0/16"]}))));
    let inner = "router net > 02-00-00-00-0B-02 | 10.244.1.2:1 > 10.244.2.9:80";
    node.check(&[
        ("a", "tcp 10.244.1.2:1 > 10.244.2.9:80 @gw", &format!("tunnel VXLAN of 5000 from 192.0.2.10 to 192.0.2.11 port 4789: {inner}")),
        ("a", "tcp 10.244.1.2:1000 > 198.51.100.7:443 @gw", TRANSLATED),
    ]);
}
