//! Documents that cannot become rules. The error names the field.

use hns::compile::network::Mode;
use hns::compile::{self, CompileError};
use serde_json::{Value, json};

use crate::bench::Node;
use crate::documents::{endpoint, network, outbound_nat, overlay, policy, read, remote_subnet};

#[track_caller]
fn names(outcome: Result<(), CompileError>, field: &str) {
    let error = outcome.expect_err("it cannot be compiled");
    assert_eq!(error.field, field, "{error}");
    assert!(error.to_string().starts_with(&format!("{field}: ")) && !error.cause.is_empty(), "{error}");
}

const SUBNETS: [(&str, &str); 1] = [("10.1.0.0/24", "10.1.0.1")];

#[test]
fn networks() {
    let router = |text: &str| json!([remote_subnet("10.244.2.0/24", "192.0.2.11", text)]);
    let table: [(Value, &str); 11] = [
        (network("Mirrored", "net", &SUBNETS, json!([])), "Type"),
        (network("L2Bridge", "net", &[("10.1.0.0/24", "here")], json!([])), "NextHop"),
        (network("NAT", "net", &[("somewhere", "10.1.0.1")], json!([])), "IpAddressPrefix"),
        (network("Overlay", "net", &SUBNETS, json!([])), "Ipams"),
        (overlay("net", 5000, &SUBNETS, json!([policy("ProviderAddress", json!({"ProviderAddress": "me"}))])), "ProviderAddress"),
        (overlay("net", 5000, &SUBNETS, json!([policy("DrMacAddress", json!({"Address": "router"}))])), "DrMacAddress"),
        (overlay("net", 5000, &SUBNETS, json!([remote_subnet("10.300.0.0/24", "192.0.2.11", "02-00-00-00-0B-02")])), "DestinationPrefix"),
        (overlay("net", 5000, &SUBNETS, json!([remote_subnet("10.244.2.0/24", "there", "02-00-00-00-0B-02")])), "ProviderAddress"),
        (overlay("net", 5000, &SUBNETS, router("")), "DistributedRouterMacAddress"),
        (overlay("net", 5000, &SUBNETS, router("02-00")), "DistributedRouterMacAddress"),
        (overlay("net", 5000, &SUBNETS, json!([policy("RemoteSubnetRoute", json!({"IsolationId": "many"}))])), "Policies"),
    ];
    for (document, field) in table {
        names(Node::new().try_network(&document), field);
    }
}

#[test]
fn endpoints() {
    let with = |policies: Value| endpoint("a", 2, &["10.1.0.2"], policies);
    let mut nameless = with(json!([]));
    nameless["MacAddress"] = json!("");
    let table = [
        (nameless, "MacAddress"),
        (endpoint("a", 2, &["10.1.0.256"], json!([])), "IpAddress"),
        (with(outbound_nat(json!({"VirtualIP": "mine"}))), "VirtualIP"),
        (with(outbound_nat(json!({"Exceptions": ["10.0.0.0/8", "10.0.0.0/40"]}))), "Exceptions"),
        (with(outbound_nat(json!({"Destinations": ["everywhere"]}))), "Destinations"),
        (with(outbound_nat(json!({"MaxPortPoolUsage": "all"}))), "Policies"),
        (with(json!([policy("InterfaceParameters", json!({"Mtu": 100}))])), "Mtu"),
        (with(json!([policy("L4Proxy", json!({"IP": "there", "Port": "80"}))])), "IP"),
        (with(json!([policy("L4Proxy", json!({"IP": "10.1.0.3", "Port": "http"}))])), "Port"),
        (with(json!([policy("L4Proxy", json!({"IP": "10.1.0.3", "Port": "80", "Exceptions": ["some"]}))])), "Exceptions"),
        (with(json!([policy("L4Proxy", json!({"IP": "10.1.0.3", "Port": "80", "Destination": "any"}))])), "Destination"),
    ];
    for (document, field) in table {
        let mut node = Node::new();
        node.network(&network("L2Bridge", "net", &SUBNETS, json!([])));
        names(node.try_endpoint("net", &document), field);
    }
    let mut node = Node::with(&[], &["fd01::10/64"]);
    node.network(&network("L2Bridge", "net", &SUBNETS, json!([])));
    let proxy = json!([policy("L4Proxy", json!({"IP": "10.1.0.3", "Port": "80", "OutboundNAT": true}))]);
    names(node.try_endpoint("net", &with(proxy)), "OutboundNAT");
}

#[test]
fn nics() {
    let table = [
        ("IpConfigurations", json!([{"IpAddress": "10.1.0.2", "PrefixLength": 33}]), "PrefixLength"),
        ("Routes", json!([{"DestinationPrefix": "default", "NextHop": "10.1.0.1"}]), "DestinationPrefix"),
        ("Routes", json!([{"DestinationPrefix": "0.0.0.0/0", "NextHop": "router"}]), "NextHop"),
    ];
    let mut node = Node::new();
    node.network(&network("L2Bridge", "net", &SUBNETS, json!([])));
    for (key, value, field) in table {
        let mut document = endpoint("a", 2, &["10.1.0.2"], json!([]));
        document[key] = value;
        let (network, site) = node.place("net");
        names(compile::endpoint::nic(&read(&document), network, site).map(drop), field);
    }
}

#[test]
fn endpoints_of_other_nodes() {
    let mut document = endpoint("r", 9, &["10.1.0.9"], json!([policy("ProviderAddress", json!({"ProviderAddress": "there"}))]));
    document["Flags"] = json!(1);
    let mut node = Node::new();
    node.network(&overlay("net", 5000, &SUBNETS, json!([])));
    names(node.try_endpoint("net", &document), "ProviderAddress");
}

#[test]
fn an_adapter_without_an_address_of_the_family() {
    let mut node = Node::with(&[], &["192.0.2.10/24", "fe80::10/64"]);
    node.network(&network("L2Bridge", "net", &SUBNETS, json!([])));
    names(node.try_endpoint("net", &endpoint("a", 2, &["10.1.0.2"], outbound_nat(json!({"Flags": 2})))), "OutBoundNAT");
    let mut node = Node::with(&[], &[]);
    names(node.try_network(&overlay("net", 5000, &SUBNETS, json!([]))), "ProviderAddress");
}

#[test]
fn a_mode_in_a_place_that_lacks_what_it_needs() {
    let mut node = Node::new();
    node.network(&network("L2Bridge", "bridge", &SUBNETS, json!([])));
    node.network(&overlay("tunnel", 5000, &SUBNETS, json!([])));
    node.network(&network("Transparent", "open", &SUBNETS, json!([])));
    for name in ["bridge", "tunnel", "open"] {
        let (document, site) = node.place(name);
        let mut bare = site.clone();
        bare.adapter = None;
        names(compile::network::rules(document, &bare).map(drop), "Type");
    }
    let (document, site) = node.place("tunnel");
    let mut closed = site.clone();
    closed.tunnel = None;
    names(compile::network::rules(document, &closed).map(drop), "Type");
    closed.domain = None;
    names(compile::endpoint::port(&read(&endpoint("a", 2, &["10.1.0.2"], json!([]))), document, &closed).map(drop), "Type");
}

#[test]
fn only_some_types_have_a_mode() {
    for network_type in ["NAT", "ICS", "ConstrainedICS", "Internal", "Private", "L2Bridge", "L2Tunnel", "Overlay", "Transparent"] {
        assert!(Mode::of(&read(&network(network_type, "net", &[], json!([])))).is_ok(), "{network_type}");
    }
    for network_type in ["Mirrored", "Sdn"] {
        names(Mode::of(&read(&network(network_type, "net", &[], json!([])))).map(drop), "Type");
    }
}
