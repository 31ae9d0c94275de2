//! L2Bridge: on the underlay, behind the node's hardware address.
//!
//! On the way out the frame's source becomes the node's; on the way in its destination becomes the endpoint's. Forwarding is by IP address.
//! On the wire the node answers for its endpoints' addresses, so that the physical network never learns theirs.
//!
//! A gateway that is on the adapter's own link is somebody there, and requests for it go out. Any other gateway is the node itself: it
//! answers for it and routes, as it does on Windows through a host endpoint. In a VLAN the node is not, and all gateways are somebody there.
//!
//! An endpoint may have another gateway than its network, within the network's subnets: flannel's pods have the address of the host
//! endpoint, and not the one that flannel gives the network. It is the node, too, unless an endpoint of the switch has it.

use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use ipnet::IpNet;
use vfp::{Action, AddressMatch, Conditions, PortId, RuleSpec, Stage};
use wire::Ip;

use super::{answer, deliver};
use crate::compile::endpoint::{addresses, hardware_address, label};
use crate::compile::network::gateways;
use crate::compile::{CompileError, Placed, Realm, Site, priority, source_mac_address, vlan};

/// The rules of a network.
pub fn network(network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let adapter = site.adapter()?;
    let tagged: Vec<IpNet> = vlan::subnets(network)?.into_iter().filter(|(_, vlan)| vlan.is_some()).map(|(prefix, _)| prefix).collect();
    let own = gateways(network)?.into_iter().filter(|(gateway, prefix)| !adapter.is_on_link(*gateway) && !tagged.contains(prefix));
    Ok(own
        .map(|(gateway, _)| answer(Realm::Wire, Stage::NeighbourOut, "gateway", Ip::from(gateway), adapter.mac, priority::GATEWAY))
        .collect())
}

/// The rules of an endpoint.
pub fn endpoint(endpoint: &Endpoint, network: &Network, site: &Site, port: PortId) -> Result<Vec<Placed>, CompileError> {
    let adapter = site.adapter()?;
    let (mac, name, on_wire) = (hardware_address(endpoint)?, label(endpoint), source_mac_address::of(network, adapter)?);
    let mut rules = Vec::new();
    for address in addresses(endpoint)? {
        rules.extend(deliver(Realm::Wire, &[Stage::ForwardOut, Stage::ForwardIn], &name, address, port, mac));
        rules.extend(deliver(Realm::Host, &[Stage::ForwardOut], &name, address, port, mac));
        rules.push(answer(Realm::Wire, Stage::NeighbourOut, &name, address, mac, priority::ENDPOINT));
        rules.push(answer(Realm::Host, Stage::NeighbourOut, &name, address, mac, priority::ENDPOINT));
        rules.push(answer(Realm::Wire, Stage::NeighbourIn, &name, address, on_wire, priority::ENDPOINT));
    }
    let own = own_gateways(endpoint, network)?.into_iter().filter(|gateway| !adapter.is_on_link(*gateway));
    rules.extend(own.map(|gateway| answer(Realm::Wire, Stage::NeighbourOut, &name, Ip::from(gateway), adapter.mac, priority::GATEWAY)));
    Ok(rules)
}

/// The rules of an endpoint of another node, to which the switch itself routes whom a service sends there under the node's address: the node
/// would not route what seems to be its own and comes from the wire, and what it sends itself goes to the gateway of the virtual address.
pub fn remote_endpoint(endpoint: &Endpoint, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let (adapter, name) = (site.adapter()?, label(endpoint));
    let mut rules = Vec::new();
    for address in addresses(endpoint)? {
        let own = adapter.node_addresses().filter(|own| own.is_v4() == address.is_v4());
        let sources: Vec<AddressMatch> = own.map(AddressMatch::host).collect();
        if sources.is_empty() {
            continue;
        }
        let conditions = Conditions { sources, ..Conditions::to(address) };
        let rule = RuleSpec::new(format!("{name} {address}"), priority::ENDPOINT, conditions, Action::Route(adapter.underlay));
        rules.push(Placed::new(Realm::Wire, Stage::ForwardIn, rule.clone()));
        rules.push(Placed::new(Realm::Host, Stage::ForwardOut, rule));
    }
    Ok(rules)
}

/// The gateways of an endpoint that are not its network's, within the subnets where the node is.
fn own_gateways(endpoint: &Endpoint, network: &Network) -> Result<Vec<IpAddr>, CompileError> {
    let (known, subnets) = (gateways(network)?, vlan::subnets(network)?);
    let hops = endpoint.routes.iter().filter(|route| route.is_default()).filter_map(|route| route.next_hop.parse::<IpAddr>().ok());
    let is_here = |hop: &IpAddr| subnets.iter().any(|(prefix, vlan)| vlan.is_none() && prefix.contains(hop));
    let is_new = |hop: &IpAddr| !known.iter().any(|(gateway, _)| gateway == hop);
    Ok(hops.filter(|hop| is_here(hop) && is_new(hop)).collect())
}
