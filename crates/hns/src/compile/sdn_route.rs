//! `SDNRoute`: where an endpoint's packets for a prefix go.
//!
//! | field | meaning |
//! |---|---|
//! | `DestinationPrefix` | the prefix |
//! | `NextHop` | whom they go to: the node itself, by one of its addresses; or nothing, and then they go as the network forwards them |
//! | `NeedEncap` | kept: whether a packet is wrapped follows from where it goes, by the network's `RemoteSubnetRoute`s |
//! | `AutomaticEndpointMonitor` | kept: there is nothing to watch |
//!
//! Plugins for Windows send it without `NextHop`, for the addresses of Services and of the node. Both are reached here without being told.
//! Another `NextHop` is refused, and so is any on L2Tunnel networks, where the fabric says where packets go. What is translated
//! (`OutBoundNAT`) goes by the node's own routes, whatever this policy says.
//!
//! Lands in the domain's forwarding group for NICs, before everything else, for this sender only.

use hcn::endpoint::Endpoint;
use hcn::policy::endpoint::{EndpointPolicyType, SdnRouteSettings};
use vfp::{Action, AddressMatch, Conditions, RuleSpec, Stage};
use wire::Ip;

use super::endpoint::{hardware_address, label};
use super::network::Mode;
use super::{AdapterSite, CompileError, Placed, Realm, address, prefix, priority, settings};

/// The rules of an endpoint.
pub fn rules(endpoint: &Endpoint, mode: Mode, adapter: &AdapterSite) -> Result<Vec<Placed>, CompileError> {
    let policies: Vec<SdnRouteSettings> = settings(&endpoint.policies, &EndpointPolicyType::SdnRoute)?;
    let (mac, name) = (hardware_address(endpoint)?, label(endpoint));
    let realm = if mode.has_domain() { Realm::Own } else { Realm::Wire };
    let mut rules = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        let destination = prefix("DestinationPrefix", &policy.destination_prefix)?;
        let Some(next_hop) = next_hop(policy)? else { continue };
        let to_node = Action::Forward { port: adapter.host, source_mac: None, destination_mac: Some(adapter.mac) };
        let action = match adapter.node_addresses().any(|own| own == next_hop) {
            true => to_node,
            // The node had the address when the policy was made.
            false => Action::Block(vfp::DropReason::NoRoute),
        };
        let conditions =
            Conditions { source_macs: vec![mac], destinations: vec![AddressMatch::Prefix(destination)], ..Conditions::default() };
        let name = format!("{name} {mac} SDNRoute {} {destination}", number + 1);
        rules.push(Placed::new(realm, Stage::ForwardOut, RuleSpec::new(name, priority::SENDER - 1, conditions, action)));
    }
    Ok(rules)
}

/// The next hop, if there is one.
pub(crate) fn next_hop(policy: &SdnRouteSettings) -> Result<Option<Ip>, CompileError> {
    match policy.next_hop.as_str() {
        "" | "0.0.0.0" | "::" => Ok(None),
        text => address("NextHop", text).map(|next_hop| Some(Ip::from(next_hop))),
    }
}
