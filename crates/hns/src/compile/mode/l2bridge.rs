//! L2Bridge: on the underlay, behind the node's hardware address.
//!
//! On the way out the frame's source becomes the node's; on the way in its destination becomes the endpoint's. Forwarding is by IP address.
//! On the wire the node answers for its endpoints' addresses, so that the physical network never learns theirs.
//!
//! A gateway that is on the adapter's own link is somebody there, and requests for it go out. Any other gateway is the node itself: it
//! answers for it and routes, as it does on Windows through a host endpoint. In a VLAN the node is not, and all gateways are somebody there.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use ipnet::IpNet;
use vfp::{PortId, Stage};
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
    Ok(rules)
}
