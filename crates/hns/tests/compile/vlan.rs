//! `VLAN`: which VLAN an endpoint is in, and what is true there.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hns::compile::{AdapterSite, Realm, vlan};
use serde_json::{Value, json};
use vfp::{Action, DomainId, PortId};

use crate::bench::Node;
use crate::documents::{endpoint, network, policy, read};

const SUBNETS: [(&str, &str); 3] = [("10.1.0.0/24", "10.1.0.1"), ("10.2.0.0/24", "10.2.0.1"), ("fd10::/64", "fd10::1")];

/// A network whose first and last subnets are in VLAN 100, and the second in none.
fn in_part(network_type: &str) -> Value {
    let mut document = network(network_type, "net", &SUBNETS, json!([]));
    for at in [0, 2] {
        document["Ipams"][0]["Subnets"][at]["Policies"] = json!([policy("VLAN", json!({"IsolationId": 100}))]);
    }
    document
}

fn of(addresses: &[&str], policies: Value) -> Result<Option<u16>, String> {
    let (network, endpoint): (Network, Endpoint) = (read(&in_part("L2Bridge")), read(&endpoint("a", 2, addresses, policies)));
    vlan::of(&endpoint, &network).map_err(|error| error.field)
}

#[test]
fn an_endpoint_is_in_the_vlan_of_its_subnet_or_in_its_own() {
    let own = |id: u32| json!([policy("VLAN", json!({"IsolationId": id}))]);
    assert_eq!(of(&["10.1.0.2"], json!([])), Ok(Some(100)));
    assert_eq!(of(&["10.1.0.2", "fd10::2"], json!([])), Ok(Some(100)));
    assert_eq!(of(&["10.2.0.2"], json!([])), Ok(None));
    assert_eq!(of(&["10.3.0.2"], json!([])), Ok(None));
    assert_eq!(of(&[], json!([])), Ok(None));
    assert_eq!(of(&["10.1.0.2", "10.2.0.2"], json!([])), Err("IpConfigurations".into()));
    assert_eq!(of(&["10.1.0.2", "10.2.0.2"], own(7)), Ok(Some(7)));
    assert_eq!(of(&["10.1.0.2"], own(4094)), Ok(Some(4094)));
    for id in [0, 4095, 65_636] {
        assert_eq!(of(&["10.1.0.2"], own(id)), Err("IsolationId".into()), "{id}");
    }
}

#[test]
fn what_needs_the_node_is_named() {
    let table = [
        (json!([policy("OutBoundNAT", json!({}))]), Some("OutBoundNAT")),
        (json!([policy("PortMapping", json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 80}))]), Some("PortMapping")),
        (
            json!([policy("SDNRoute", json!({"DestinationPrefix": "10.9.0.0/16", "NextHop": "192.0.2.10"}))]),
            Some("SDNRoute with a NextHop"),
        ),
        (json!([policy("SDNRoute", json!({"DestinationPrefix": "10.9.0.0/16"}))]), None),
        (json!([policy("L4Proxy", json!({"IP": "10.1.0.3", "Port": "80", "OutboundNAT": true}))]), Some("L4Proxy with OutboundNAT")),
        (json!([policy("L4Proxy", json!({"IP": "10.1.0.3", "Port": "80"}))]), None),
        (json!([policy("QOS", json!({"MaximumOutgoingBandwidthInBytes": 1000}))]), None),
    ];
    for (policies, expected) in table {
        let endpoint: Endpoint = read(&endpoint("a", 2, &["10.1.0.2"], policies.clone()));
        assert_eq!(vlan::needs_node(&endpoint.policies), expected, "{policies}");
    }
}

#[test]
fn the_node_has_no_way_into_a_vlan() {
    let mut node = Node::new();
    node.network(&in_part("L2Bridge"));
    assert_eq!(node.host_routes("net"), ["10.2.0.0/24"]);
    node.endpoint("net", &endpoint("b", 3, &["10.2.0.3"], json!([])));
    node.check(&[
        ("b", "who 10.2.0.1 tell 10.2.0.3", "is at host"),
        ("b", "who 10.1.0.1 tell 10.2.0.3", "uplink: host > all | who 10.1.0.1 tell host 10.2.0.3"),
    ]);
}

#[test]
fn rules_lead_to_the_uplink_of_the_vlan_and_none_are_the_nodes() {
    let (domain, uplink, port) = (DomainId(77), PortId(50), PortId(51));
    for network_type in ["L2Bridge", "L2Tunnel", "Transparent"] {
        let mut node = Node::new();
        node.network(&in_part(network_type));
        let (network, untagged) = node.place("net");
        let adapter = untagged.adapter.clone().unwrap();
        let inside = AdapterSite { uplink, wire_domain: domain, addresses: Vec::new(), ..adapter };
        let site = vlan::site(untagged, inside);
        assert_eq!(site.services, None);
        let pod: Endpoint = read(&endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([])));
        let mut rules = vlan::adapter_rules(uplink);
        rules.extend(vlan::network_rules(network, &site).unwrap());
        rules.extend(vlan::endpoint_rules(&pod, network, &site, port).unwrap());
        assert!(rules.iter().all(|placed| placed.realm == Realm::Wire), "{network_type}: {rules:?}");
        for placed in &rules {
            if let Action::Forward { port: to, .. } = placed.rule.action {
                assert!([uplink, port].contains(&to), "{network_type}: {placed:?}");
            }
        }
        let spec = hns::compile::endpoint::port(&pod, network, &site).unwrap();
        assert_eq!(spec.domain, domain, "{network_type}");
    }
}
