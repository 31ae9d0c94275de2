//! A network: what its mode asks of the switch before any endpoint is there.

use std::net::IpAddr;

use hcn::network::{Network, NetworkFlags, NetworkType};
use hcn::policy::network::{DrMacAddressSettings, NetworkPolicyType, ProviderAddressSettings, VxlanPortSettings};
use hcn::policy::subnet::{IsolationSettings, SubnetPolicyType};
use hcn::policy::{self};
use ipnet::IpNet;
use vfp::{DomainSpec, Flood};
use wire::{Ip, MacAddress};

use super::{CompileError, Placed, Site, address, mac, mode, neighbor_discovery, prefix, vlan};

/// How a network moves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Bridged, behind the node's hardware address.
    L2Bridge,
    /// As bridged, with every packet going out to the fabric.
    L2Tunnel,
    /// VXLAN between nodes.
    Overlay,
    /// Bridged, as they are.
    Transparent,
    /// A switch of its own, translated by the node.
    Nat,
    /// A switch of its own with the node on it, and no translation.
    Internal,
    /// A switch of its own without the node.
    Private,
}

impl Mode {
    /// The mode of a network, if it is one that a switch can be.
    pub fn of(network: &Network) -> Result<Self, CompileError> {
        Ok(match &network.network_type {
            NetworkType::L2Bridge => Self::L2Bridge,
            NetworkType::L2Tunnel => Self::L2Tunnel,
            NetworkType::Overlay => Self::Overlay,
            NetworkType::Transparent => Self::Transparent,
            NetworkType::Nat | NetworkType::Ics | NetworkType::ConstrainedIcs => Self::Nat,
            NetworkType::Internal => Self::Internal,
            NetworkType::Private => Self::Private,
            other => return Err(CompileError::new("Type", format!("the switch has no mode for networks of type {other:?}"))),
        })
    }

    /// Whether it is on an adapter of the node.
    pub const fn has_adapter(self) -> bool {
        matches!(self, Self::L2Bridge | Self::L2Tunnel | Self::Overlay | Self::Transparent)
    }

    /// Whether services are reached from its endpoints: packets are then forwarded by IP address, which is what a service changes.
    pub const fn has_services(self) -> bool {
        matches!(self, Self::L2Bridge | Self::L2Tunnel | Self::Overlay)
    }

    /// Whether its endpoints are on the wire of an adapter, where there may be VLANs.
    pub const fn has_vlans(self) -> bool {
        matches!(self, Self::L2Bridge | Self::L2Tunnel | Self::Transparent)
    }

    /// Whether it has a forwarding domain of its own.
    pub const fn has_domain(self) -> bool {
        !matches!(self, Self::L2Bridge | Self::L2Tunnel | Self::Transparent)
    }

    /// Whether the node has a vNIC on it that no adapter gives it.
    pub const fn has_gateway_vnic(self) -> bool {
        matches!(self, Self::Nat | Self::Internal)
    }
}

/// What is particular to an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The virtual network.
    pub vni: u32,
    /// The UDP port.
    pub port: u16,
    /// Our provider address.
    pub provider: Ip,
    /// The hardware address of the distributed router.
    pub router_mac: MacAddress,
}

/// The UDP port of VXLAN where nobody asks for another.
const VXLAN_PORT: u16 = 4789;

/// How people know a network.
pub fn label(network: &Network) -> String {
    match network.name.is_empty() {
        true => network.id.to_string(),
        false => network.name.clone(),
    }
}

/// All virtual networks of an overlay: those that its subnets name.
pub fn vnis(network: &Network) -> Vec<u32> {
    let vsid =
        |policies: &[policy::Policy]| policy::find::<_, IsolationSettings>(policies, &SubnetPolicyType::Vsid).map(|vsid| vsid.isolation_id);
    network.subnets().filter_map(|subnet| vsid(&subnet.policies)).collect()
}

/// What is particular to an overlay network.
pub fn overlay(network: &Network, site_address: Option<IpAddr>) -> Result<Overlay, CompileError> {
    let vni = vnis(network).first().copied().ok_or_else(|| CompileError::new("Ipams", "an overlay needs a subnet with a VSID policy"))?;
    let port: Option<VxlanPortSettings> = policy::find(&network.policies, &NetworkPolicyType::VxlanPort);
    let provider: Option<ProviderAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::ProviderAddress);
    let provider = match provider.filter(|provider| !provider.provider_address.is_empty()) {
        Some(provider) => address("ProviderAddress", &provider.provider_address)?,
        None => {
            site_address.ok_or_else(|| CompileError::new("ProviderAddress", "the adapter has no address to be the provider address"))?
        }
    };
    let router: Option<DrMacAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::DrMacAddress);
    let router_mac = match router.filter(|router| !router.address.is_empty()) {
        Some(router) => mac("DrMacAddress", &router.address)?,
        None => default_router_mac(network),
    };
    let port = port.map(|port| port.port).filter(|port| *port != 0).unwrap_or(VXLAN_PORT);
    Ok(Overlay { vni, port, provider: Ip::from(provider), router_mac })
}

/// A router's address made of the network's id, in Microsoft's range.
fn default_router_mac(network: &Network) -> MacAddress {
    let id = network.id.into_bytes();
    MacAddress([0x00, 0x15, 0x5d, id[0], id[1], id[2]])
}

/// The prefixes of a network's subnets.
pub fn prefixes(network: &Network) -> Result<Vec<IpNet>, CompileError> {
    network
        .subnets()
        .filter(|subnet| !subnet.ip_address_prefix.is_empty())
        .map(|subnet| prefix("IpAddressPrefix", &subnet.ip_address_prefix))
        .collect()
}

/// The gateways of a network's subnets, each with the prefix it is in.
pub fn gateways(network: &Network) -> Result<Vec<(IpAddr, IpNet)>, CompileError> {
    let mut gateways = Vec::new();
    for subnet in network.subnets() {
        let Some(gateway) = subnet.gateway().filter(|gateway| !matches!(*gateway, "0.0.0.0" | "::")) else { continue };
        gateways.push((address("NextHop", gateway)?, prefix("IpAddressPrefix", &subnet.ip_address_prefix)?));
    }
    Ok(gateways)
}

/// Whether HNS serves names at the gateway: networks behind NAT do unless told otherwise by another server.
pub fn serves_names(network: &Network, mode: Mode) -> bool {
    mode == Mode::Nat || network.flags.has(NetworkFlags::ENABLE_DNS)
}

/// The domain of a network that has one.
pub fn domain(network: &Network, mode: Mode) -> DomainSpec {
    let floods = matches!(mode, Mode::Nat | Mode::Internal | Mode::Private);
    DomainSpec { name: label(network), flood: if floods { Flood::Everybody } else { Flood::Nobody }, other_protocols: floods }
}

/// The rules of a network.
pub fn rules(network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let mode = Mode::of(network)?;
    let mut rules = match mode {
        Mode::L2Bridge => mode::l2bridge::network(network, site)?,
        Mode::L2Tunnel => Vec::new(),
        Mode::Overlay => mode::overlay::network(network, site)?,
        Mode::Transparent => mode::transparent::network(network, site)?,
        Mode::Nat | Mode::Internal | Mode::Private => mode::internal::network(network, site)?,
    };
    rules.extend(neighbor_discovery::rules(network, mode)?);
    Ok(rules)
}

/// The policies of a network that its endpoints' ports, and the VLANs they are in, are compiled from. Where they change, the endpoints have
/// to be compiled anew.
pub fn for_endpoints(network: &Network) -> Vec<policy::Policy> {
    use NetworkPolicyType::{L4Proxy, NeighborDiscovery, NetworkAcl, SetPolicy, SourceMacAddress};
    let kinds = [SetPolicy, NetworkAcl, SourceMacAddress, L4Proxy, NeighborDiscovery];
    let concerns = |policy: &&policy::Policy| kinds.iter().any(|kind| policy.is(kind));
    network.policies.iter().filter(concerns).cloned().collect()
}

/// Prefixes that the node reaches through its vNIC on the switch.
pub fn host_routes(network: &Network, site: &Site) -> Result<Vec<IpNet>, CompileError> {
    let Some(adapter) = &site.adapter else {
        return Ok(Vec::new());
    };
    let mut routes = match Mode::of(network)? {
        // The node is in no VLAN.
        Mode::L2Bridge => vlan::subnets(network)?.into_iter().filter(|(_, vlan)| vlan.is_none()).map(|(prefix, _)| prefix).collect(),
        Mode::Overlay => prefixes(network)?,
        _ => Vec::new(),
    };
    if Mode::of(network)? == Mode::Overlay && !site.has(crate::profile::Limit::OverlayNodeLocalPodsOnly) {
        let overlay = overlay(network, adapter.addresses.first().map(IpNet::addr))?;
        routes.extend(super::remote_subnet::routes(network, &overlay)?.into_iter().map(|remote| remote.prefix));
    }
    routes.retain(|prefix| !adapter.addresses.iter().any(|own| own.trunc() == prefix.trunc()));
    Ok(routes)
}
