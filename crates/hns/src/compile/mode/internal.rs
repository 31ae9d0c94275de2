//! NAT, Internal and Private: a switch of its own, without an adapter. On the first two the node has a vNIC, which is the gateway; what it does
//! with packets that come there (translate, route, drop) is the node's affair.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use vfp::{Action, Conditions, PortId, RuleSpec, Stage};
use wire::Ip;

use super::answer;
use crate::compile::endpoint::{addresses, hardware_address, label};
use crate::compile::network::gateways;
use crate::compile::{CompileError, Placed, Realm, Site, priority};

/// The rules of a network.
pub fn network(network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let Some((port, mac)) = site.gateway else {
        return Ok(Vec::new());
    };
    let action = Action::Forward { port, source_mac: None, destination_mac: None };
    let to_node = RuleSpec::new("node", priority::NODE_MAC, Conditions::to_mac(mac), action);
    let mut rules = vec![Placed::new(Realm::Own, Stage::ForwardOut, to_node)];
    for (gateway, _) in gateways(network)? {
        rules.push(answer(Realm::Own, Stage::NeighbourOut, "gateway", Ip::from(gateway), mac, priority::GATEWAY));
    }
    Ok(rules)
}

/// The rules of an endpoint.
pub fn endpoint(endpoint: &Endpoint, port: PortId) -> Result<Vec<Placed>, CompileError> {
    let (mac, name) = (hardware_address(endpoint)?, label(endpoint));
    let action = Action::Forward { port, source_mac: None, destination_mac: None };
    let rule = RuleSpec::new(format!("{name} {mac}"), priority::ENDPOINT, Conditions::to_mac(mac), action);
    let mut rules = vec![Placed::new(Realm::Own, Stage::ForwardOut, rule)];
    for address in addresses(endpoint)? {
        rules.push(answer(Realm::Own, Stage::NeighbourOut, &name, address, mac, priority::ENDPOINT));
    }
    Ok(rules)
}
