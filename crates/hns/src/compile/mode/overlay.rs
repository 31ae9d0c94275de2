//! Overlay: VXLAN between nodes, by policy and without flooding.
//!
//! The network has a domain of its own, so that networks with the same addresses do not meet; the VNI leads arriving frames to it. Its gateway is the
//! distributed router, which every node answers for. The node reaches endpoints, and they reach it, without encapsulation.

use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hcn::policy::endpoint::EndpointPolicyType;
use hcn::policy::network::ProviderAddressSettings;
use hcn::policy::{self};
use ipnet::IpNet;
use vfp::{Action, Conditions, PortId, RuleSpec, Stage};
use wire::{Encapsulation, Ip, TunnelKind};

use super::{answer, deliver};
use crate::compile::endpoint::{addresses, hardware_address, label};
use crate::compile::network::{Overlay, gateways, overlay};
use crate::compile::remote_subnet::{self, Remote};
use crate::compile::{CompileError, Placed, Realm, Site, address, priority};

fn facts(network: &Network, site: &Site) -> Result<(Overlay, PortId), CompileError> {
    let overlay = overlay(network, site.adapter()?.addresses.first().map(IpNet::addr))?;
    let tunnel = site.tunnel.ok_or_else(|| CompileError::new("Type", "the network has no tunnel"))?;
    Ok((overlay, tunnel))
}

/// The rules of a network.
pub fn network(network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let adapter = site.adapter()?;
    let (overlay, tunnel) = facts(network, site)?;
    let mut rules = remote_subnet::rules(network, &overlay, tunnel, site)?;
    for (gateway, _) in gateways(network)? {
        rules.push(answer(Realm::Own, Stage::NeighbourOut, "gateway", Ip::from(gateway), overlay.router_mac, priority::GATEWAY));
    }
    for node in adapter.node_addresses() {
        let to_node = Action::Forward { port: adapter.host, source_mac: None, destination_mac: Some(adapter.mac) };
        let rule = RuleSpec::new(format!("node {node}"), priority::NODE, Conditions::to(node), to_node);
        rules.push(Placed::new(Realm::Own, Stage::ForwardOut, rule.clone()));
        rules.push(Placed::new(Realm::Own, Stage::ForwardIn, rule));
    }
    let outside = RuleSpec::new("outside", priority::DEFAULT, Conditions::any(), Action::Route(adapter.underlay));
    rules.push(Placed::new(Realm::Own, Stage::ForwardOut, outside));
    Ok(rules)
}

/// The rules of an endpoint of this node. For the node they bear the network's name: another network may have the same addresses.
pub fn endpoint(endpoint: &Endpoint, network: &Network, port: PortId) -> Result<Vec<Placed>, CompileError> {
    let (mac, name) = (hardware_address(endpoint)?, label(endpoint));
    let of_network = format!("{} {name}", crate::compile::network::label(network));
    let mut rules = Vec::new();
    for address in addresses(endpoint)? {
        rules.extend(deliver(Realm::Own, &[Stage::ForwardOut, Stage::ForwardIn], &name, address, port, mac));
        rules.extend(deliver(Realm::Host, &[Stage::ForwardOut], &of_network, address, port, mac));
        rules.push(answer(Realm::Own, Stage::NeighbourOut, &name, address, mac, priority::ENDPOINT));
        rules.push(answer(Realm::Host, Stage::NeighbourOut, &of_network, address, mac, priority::ENDPOINT));
    }
    Ok(rules)
}

/// The rules of an endpoint of another node: `ProviderAddress` says which. Where a route leads to that node too, inner frames go to the router
/// there: nobody knows whether the endpoint has the hardware address that an agent gave it here.
pub fn remote_endpoint(endpoint: &Endpoint, network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let (overlay, tunnel) = facts(network, site)?;
    let provider: Option<ProviderAddressSettings> = policy::find(&endpoint.policies, &EndpointPolicyType::ProviderAddress);
    // Without it the endpoint is only a name for an address; routes say where that is.
    let Some(provider) = provider.filter(|provider| !provider.provider_address.is_empty()) else {
        return Ok(Vec::new());
    };
    let remote = Ip::from(address("ProviderAddress", &provider.provider_address)?);
    let encapsulation = Encapsulation { kind: TunnelKind::Vxlan, vni: overlay.vni, local: overlay.provider, remote, port: overlay.port };
    let (mac, name) = (hardware_address(endpoint)?, label(endpoint));
    let routes = remote_subnet::routes(network, &overlay)?;
    let mut rules = Vec::new();
    for address in addresses(endpoint)? {
        let leads_there = |route: &&Remote| route.encapsulation == encapsulation && route.prefix.contains(&IpAddr::from(address));
        let push = match routes.iter().find(leads_there) {
            Some(route) => {
                let (source_mac, destination_mac) = (Some(overlay.router_mac), Some(route.mac));
                Action::Push { port: tunnel, encapsulation, source_mac, destination_mac }
            }
            None => Action::Push { port: tunnel, encapsulation, source_mac: None, destination_mac: Some(mac) },
        };
        let rule = RuleSpec::new(format!("{name} {address}"), priority::ENDPOINT, Conditions::to(address), push);
        rules.push(Placed::new(Realm::Own, Stage::ForwardOut, rule));
        rules.push(answer(Realm::Own, Stage::NeighbourOut, &name, address, mac, priority::ENDPOINT));
    }
    Ok(rules)
}
