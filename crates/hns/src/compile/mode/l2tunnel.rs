//! L2Tunnel: as L2Bridge, with every packet going out to the fabric, also between neighbours and to the node itself.
//!
//! Requests for neighbours go out too: whatever the fabric answers is where the packets go.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use vfp::{Action, Conditions, PortId, RuleSpec, Stage};

use super::{answer, deliver};
use crate::compile::endpoint::{addresses, hardware_address, label};
use crate::compile::{CompileError, Placed, Realm, Site, priority, source_mac_address};

/// The rules of an endpoint.
pub fn endpoint(endpoint: &Endpoint, network: &Network, site: &Site, port: PortId) -> Result<Vec<Placed>, CompileError> {
    let adapter = site.adapter()?;
    let (mac, name, on_wire) = (hardware_address(endpoint)?, label(endpoint), source_mac_address::of(network, adapter)?);
    let out = Action::Forward { port: adapter.uplink, source_mac: None, destination_mac: None };
    let own = Conditions { source_macs: vec![mac], ..Conditions::default() };
    let to_fabric = RuleSpec::new(format!("{name} {mac} to the fabric"), priority::SENDER, own, out);
    let mut rules =
        vec![Placed::new(Realm::Wire, Stage::ForwardOut, to_fabric.clone()), Placed::new(Realm::Wire, Stage::NeighbourOut, to_fabric)];
    for address in addresses(endpoint)? {
        rules.extend(deliver(Realm::Wire, &[Stage::ForwardIn], &name, address, port, mac));
        rules.push(answer(Realm::Wire, Stage::NeighbourIn, &name, address, on_wire, priority::ENDPOINT));
    }
    Ok(rules)
}
