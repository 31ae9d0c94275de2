//! The NIC of an endpoint as its namespace sees it: addresses, routes, MTU.

use hcn::endpoint::Endpoint;
use hns::compile::endpoint::{NicPlan, nic, port};
use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, network, overlay, policy, read};

/// The NIC of an endpoint on a network of this type.
fn plan(network_type: &str, document: &Value) -> NicPlan {
    let node = node(network_type, json!([]));
    let (network, site) = node.place("net");
    nic(&read(document), network, site).unwrap()
}

fn node(network_type: &str, policies: Value) -> Node {
    let mut node = Node::new();
    let subnets = [("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")];
    node.network(&match network_type {
        "Overlay" => overlay("net", 5000, &subnets, policies),
        other => network(other, "net", &subnets, policies),
    });
    node
}

/// The MTU that an endpoint gets, or the error in words.
fn mtu(node: &Node, addresses: &[&str], policies: Value) -> Result<u16, String> {
    let (network, site) = node.place("net");
    let document: Endpoint = read(&endpoint("a", 2, addresses, policies));
    let plan = nic(&document, network, site).map_err(|error| error.to_string())?;
    assert_eq!(port(&document, network, site).unwrap().mtu, plan.mtu, "port and NIC agree");
    Ok(plan.mtu)
}

#[test]
fn addresses_and_routes() {
    let mut document = endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([]));
    document["Routes"] = json!([
        {"DestinationPrefix": "0.0.0.0/0", "NextHop": "10.1.0.1"},
        {"DestinationPrefix": "::/0", "NextHop": "fd10::1", "Metric": 7},
        {"DestinationPrefix": "10.1.9.7/24", "NextHop": "0.0.0.0"},
        {"DestinationPrefix": "10.1.8.8", "NextHop": ""},
    ]);
    let plan = plan("L2Bridge", &document);
    assert_eq!(plan.mac.to_string(), "00-15-5D-00-00-02");
    assert_eq!(plan.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.1.0.2/24", "fd10::2/64"]);
    let print = |route: &hns::compile::endpoint::NicRoute| {
        let hop = route.next_hop.map_or_else(|| "link".to_owned(), |hop| hop.to_string());
        format!("{} by {hop} metric {}", route.destination, route.metric)
    };
    let expected =
        ["0.0.0.0/0 by 10.1.0.1 metric 0", "::/0 by fd10::1 metric 7", "10.1.9.0/24 by link metric 0", "10.1.8.8/32 by link metric 0"];
    assert_eq!(plan.routes.iter().map(print).collect::<Vec<_>>(), expected);
}

#[test]
fn default_routes_need_no_length() {
    for (text, hop, expected) in [
        ("0.0.0.0", "10.1.0.1", "0.0.0.0/0"),
        ("", "10.1.0.1", "0.0.0.0/0"),
        ("::", "fd10::1", "::/0"),
        ("0.0.0.0/0", "10.1.0.1", "0.0.0.0/0"),
    ] {
        let mut document = endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([]));
        document["Routes"] = json!([{"DestinationPrefix": text, "NextHop": hop}]);
        assert_eq!(plan("L2Bridge", &document).routes[0].destination.to_string(), expected, "{text:?}");
    }
}

#[test]
fn a_network_whose_default_route_has_no_length_has_its_gateway() {
    for default in ["0.0.0.0", "0.0.0.0/0"] {
        let mut node = Node::new();
        let mut document = network("L2Bridge", "net", &[("10.1.0.0/24", "10.1.0.1")], json!([]));
        document["Ipams"][0]["Subnets"][0]["Routes"][0]["DestinationPrefix"] = json!(default);
        node.network(&document);
        node.endpoint("net", &endpoint("a", 2, &["10.1.0.2"], json!([])));
        node.check(&[("a", "who 10.1.0.1 tell 10.1.0.2", "is at host")]);
    }
}

#[test]
fn routes_of_a_family_without_an_address_are_left_out() {
    let mut document = endpoint("a", 2, &["10.1.0.2"], json!([]));
    document["Routes"] =
        json!([{"DestinationPrefix": "0.0.0.0/0", "NextHop": "10.1.0.1"}, {"DestinationPrefix": "::/0", "NextHop": "fd10::1"}]);
    assert_eq!(plan("L2Bridge", &document).routes.len(), 1);
}

#[test]
fn the_mtu_is_what_the_adapter_leaves() {
    for (network_type, expected) in
        [("L2Bridge", 1500), ("L2Tunnel", 1500), ("Transparent", 1500), ("NAT", 1500), ("Internal", 1500), ("Overlay", 1450)]
    {
        assert_eq!(mtu(&node(network_type, json!([])), &["10.1.0.2"], json!([])), Ok(expected), "{network_type}");
    }
    let over_six = json!([policy("ProviderAddress", json!({"ProviderAddress": "fd01::10"}))]);
    assert_eq!(mtu(&node("Overlay", over_six), &["10.1.0.2"], json!([])), Ok(1430), "the outer header is IPv6");
}

#[test]
fn endpoints_may_ask_for_less() {
    let overhead = |bytes: u16| policy("EncapOverhead", json!({"Overhead": bytes}));
    let asked = |mtu: u16| policy("InterfaceParameters", json!({"Mtu": mtu}));
    let table = [
        ("L2Bridge", json!([overhead(100)]), 1400),
        ("Overlay", json!([overhead(100)]), 1400),
        ("Overlay", json!([overhead(0)]), 1500),
        ("L2Bridge", json!([asked(1400)]), 1400),
        ("L2Bridge", json!([asked(9000)]), 1500),
        ("L2Bridge", json!([asked(0)]), 1500),
        ("Overlay", json!([asked(1480)]), 1450),
        ("Overlay", json!([asked(1300)]), 1300),
        ("L2Bridge", json!([asked(1450), overhead(100)]), 1400),
        ("L2Bridge", json!([asked(1350), overhead(100)]), 1350),
        ("NAT", json!([asked(1300)]), 1300),
    ];
    for (network_type, policies, expected) in table {
        assert_eq!(mtu(&node(network_type, json!([])), &["10.1.0.2"], policies.clone()), Ok(expected), "{network_type} {policies}");
    }
}

#[test]
fn no_mtu_is_smaller_than_its_protocol_allows() {
    let asked = |mtu: u16| json!([policy("InterfaceParameters", json!({"Mtu": mtu}))]);
    let node = node("L2Bridge", json!([]));
    assert_eq!(mtu(&node, &["10.1.0.2"], asked(576)), Ok(576));
    assert!(mtu(&node, &["10.1.0.2"], asked(575)).unwrap_err().starts_with("Mtu: 575"));
    assert_eq!(mtu(&node, &["10.1.0.2", "fd10::2"], asked(1280)), Ok(1280));
    assert!(mtu(&node, &["10.1.0.2", "fd10::2"], asked(1279)).unwrap_err().starts_with("Mtu: 1279"));
    assert!(mtu(&node, &["10.1.0.2"], json!([policy("EncapOverhead", json!({"Overhead": 1499}))])).unwrap_err().starts_with("Mtu: 1 "));
}

#[test]
fn packets_that_do_not_fit_are_not_sent() {
    let mut node = node("L2Bridge", json!([]));
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([policy("InterfaceParameters", json!({"Mtu": 1300}))])));
    node.check(&[
        ("a", "udp [fd10::2]:1 > [fd10::3]:2 @b size 1252", "b: a > b | [fd10::2]:1 > [fd10::3]:2"),
        ("a", "udp [fd10::2]:1 > [fd10::3]:2 @b size 1253", "drop packet-too-big by forward/from-nic/b fd10::3"),
    ]);
}
