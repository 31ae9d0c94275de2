//! `VLAN`: endpoints in a VLAN of the wire that their adapter is on.
//!
//! | field | meaning |
//! |---|---|
//! | `IsolationId` | the VLAN, from 1 to 4094 |
//!
//! On a subnet it is about endpoints with an address of that subnet; on an endpoint it is about that one, whatever its subnet says. Their frames leave
//! the adapter with a tag of the VLAN (802.1Q), and frames with that tag come in to them without it. Nobody else on the node sees either: a VLAN is a domain of its own,
//! with an uplink of its own, which is one more socket on the same adapter.
//!
//! The node is not in the VLAN. It is no gateway there and no Service's way in, so gateways are machines on the wire; what would need the node's address
//! (`OutBoundNAT`, `PortMapping`, `SDNRoute` with a `NextHop`, `L4Proxy` with `OutboundNAT`) cannot be, and endpoints in VLANs reach no load balancer.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hcn::policy::endpoint::{EndpointPolicyType, SdnRouteSettings};
use hcn::policy::network::L4ProxySettings;
use hcn::policy::subnet::{IsolationSettings, SubnetPolicyType};
use hcn::policy::{self, Policy};
use ipnet::IpNet;
use vfp::{Action, Conditions, PortId, RuleSpec, Stage};

use super::network::Mode;
use super::{AdapterSite, CompileError, Placed, Realm, Site, address, mode, neighbor_discovery, prefix, priority, sdn_route, settings};

/// The VLAN that an endpoint is in, if it is in one.
pub fn of(endpoint: &Endpoint, network: &Network) -> Result<Option<u16>, CompileError> {
    match settings::<_, IsolationSettings>(&endpoint.policies, &EndpointPolicyType::Vlan)?.as_slice() {
        [] => {}
        [own] => return number(own).map(Some),
        _ => return Err(CompileError::new("Policies", "the endpoint has several VLAN policies, and a NIC is in one VLAN")),
    }
    let subnets = subnets(network)?;
    if subnets.iter().all(|(_, vlan)| vlan.is_none()) {
        return Ok(None);
    }
    let mut found: Option<Option<u16>> = None;
    for ip in &endpoint.ip_configurations {
        let address = address("IpAddress", &ip.ip_address)?;
        let Some((_, vlan)) = subnets.iter().copied().find(|(prefix, _)| prefix.contains(&address)) else { continue };
        if found.is_some_and(|other| other != vlan) {
            return Err(CompileError::new("IpConfigurations", "the addresses are of subnets in different VLANs, and a NIC is in one"));
        }
        found = Some(vlan);
    }
    Ok(found.flatten())
}

/// The subnets of a network, each with the VLAN it is in.
pub fn subnets(network: &Network) -> Result<Vec<(IpNet, Option<u16>)>, CompileError> {
    let mut subnets = Vec::new();
    for subnet in network.subnets().filter(|subnet| !subnet.ip_address_prefix.is_empty()) {
        let vlan = policy::find::<_, IsolationSettings>(&subnet.policies, &SubnetPolicyType::Vlan);
        subnets.push((prefix("IpAddressPrefix", &subnet.ip_address_prefix)?, vlan.map(|vlan| number(&vlan)).transpose()?));
    }
    Ok(subnets)
}

fn number(settings: &IsolationSettings) -> Result<u16, CompileError> {
    let number = u16::try_from(settings.isolation_id).ok().filter(|number| (1..=4094).contains(number));
    number.ok_or_else(|| CompileError::new("IsolationId", format!("{} is no VLAN", settings.isolation_id)))
}

/// The first policy of a list that needs the node to be where the endpoint is, by name.
pub fn needs_node(policies: &[Policy]) -> Option<&'static str> {
    let name = |policy: &Policy| match policy.kind() {
        Ok(EndpointPolicyType::OutBoundNat) => Some("OutBoundNAT"),
        Ok(EndpointPolicyType::PortMapping) => Some("PortMapping"),
        Ok(EndpointPolicyType::SdnRoute) => {
            let route = policy.settings::<SdnRouteSettings>().ok()?;
            sdn_route::next_hop(&route).ok()?.map(|_| "SDNRoute with a NextHop")
        }
        Ok(EndpointPolicyType::L4Proxy) => {
            let proxy = policy.settings::<L4ProxySettings>().ok()?;
            proxy.outbound_nat.then_some("L4Proxy with OutboundNAT")
        }
        _ => None,
    };
    policies.iter().find_map(name)
}

/// Where a network's endpoints are that are in a VLAN.
pub fn site(network: &Site, vlan: AdapterSite) -> Site {
    Site { adapter: Some(vlan), services: None, ..network.clone() }
}

/// What holds in a VLAN whichever networks are there: what nobody here has leaves by the adapter.
pub fn adapter_rules(uplink: PortId) -> Vec<Placed> {
    let out = Action::Forward { port: uplink, source_mac: None, destination_mac: None };
    let rule = RuleSpec::new("uplink", priority::DEFAULT, Conditions::any(), out);
    [Stage::ForwardOut, Stage::NeighbourOut].map(|stage| Placed::new(Realm::Wire, stage, rule.clone())).to_vec()
}

/// The rules of a network in a VLAN: those of its mode, without the node. Its gateways are on the wire.
pub fn network_rules(network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let mode = Mode::of(network)?;
    let mut rules = match mode {
        Mode::Transparent => mode::transparent::network(network, site)?,
        _ => Vec::new(),
    };
    rules.extend(neighbor_discovery::rules(network, mode)?);
    Ok(without_node(rules))
}

/// The rules of an endpoint in a VLAN, without those for the node.
pub fn endpoint_rules(endpoint: &Endpoint, network: &Network, site: &Site, port: PortId) -> Result<Vec<Placed>, CompileError> {
    Ok(without_node(super::endpoint::rules(endpoint, network, site, port)?))
}

fn without_node(rules: Vec<Placed>) -> Vec<Placed> {
    rules.into_iter().filter(|placed| placed.realm != Realm::Host).collect()
}
