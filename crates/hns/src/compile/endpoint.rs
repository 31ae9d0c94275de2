//! An endpoint: a port of the switch with a NIC behind it, or a place on another node.

use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hcn::policy::endpoint::{EncapOverheadSettings, EndpointPolicyType, InterfaceParametersSettings};
use hcn::policy::{self};
use ipnet::IpNet;
use vfp::{DomainId, PortId, PortKind, PortSpec, ProgramSpec};
use wire::{Ip, MacAddress};

use super::guard::Guard;
use super::network::Mode;
use super::{CompileError, Placed, Site, access, address, l4_proxy, mac, mode, outbound_nat, prefix, sdn_route, source_mac_address};

/// A route that the NIC's namespace gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicRoute {
    /// What it is for.
    pub destination: IpNet,
    /// Through whom; none for what is on the link.
    pub next_hop: Option<IpAddr>,
    /// Its metric.
    pub metric: u16,
}

/// The NIC of an endpoint as its namespace is to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicPlan {
    /// What it is called; the first free name if nobody says.
    pub name: Option<String>,
    /// Its hardware address.
    pub mac: MacAddress,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Its routes.
    pub routes: Vec<NicRoute>,
    /// Its MTU.
    pub mtu: u16,
}

/// The MTU where no adapter says one.
const MTU: u16 = 1500;

/// What the outer headers of VXLAN over this family, and the inner Ethernet header, take of the adapter's MTU.
pub const fn vxlan_overhead(v4: bool) -> u16 {
    if v4 { 50 } else { 70 }
}

/// The smallest MTU that IPv6 allows.
const MTU_MIN: u16 = 1280;

/// The addresses of an endpoint.
pub fn addresses(endpoint: &Endpoint) -> Result<Vec<Ip>, CompileError> {
    endpoint.ip_configurations.iter().map(|ip| address("IpAddress", &ip.ip_address).map(Ip::from)).collect()
}

/// The hardware address of an endpoint.
pub fn hardware_address(endpoint: &Endpoint) -> Result<MacAddress, CompileError> {
    mac("MacAddress", &endpoint.mac_address)
}

/// The NIC of an endpoint.
pub fn nic(endpoint: &Endpoint, network: &Network, site: &Site) -> Result<NicPlan, CompileError> {
    let with_prefix = |ip: &hcn::endpoint::IpConfiguration| {
        let address = address("IpAddress", &ip.ip_address)?;
        IpNet::new(address, ip.prefix_length).map_err(|_| CompileError::new("PrefixLength", format!("{} is too long", ip.prefix_length)))
    };
    let addresses: Vec<IpNet> = endpoint.ip_configurations.iter().map(with_prefix).collect::<Result<_, _>>()?;
    Ok(NicPlan {
        name: super::namespace::interface_name(endpoint)?,
        mac: hardware_address(endpoint)?,
        routes: routes(endpoint, &addresses)?,
        addresses,
        mtu: mtu(endpoint, network, site)?,
    })
}

fn routes(endpoint: &Endpoint, addresses: &[IpNet]) -> Result<Vec<NicRoute>, CompileError> {
    let mut routes = Vec::new();
    for route in &endpoint.routes {
        let destination = prefix("DestinationPrefix", default_prefix(&route.destination_prefix))?;
        let next_hop = match route.next_hop.as_str() {
            "" | "0.0.0.0" | "::" => None,
            text => Some(address("NextHop", text)?),
        };
        // A route of a family that the endpoint has no address of would be of no use.
        if addresses.iter().any(|own| own.addr().is_ipv4() == destination.addr().is_ipv4()) {
            routes.push(NicRoute { destination, next_hop, metric: route.metric });
        }
    }
    Ok(routes)
}

/// Microsoft's own samples write the default route without a prefix length.
fn default_prefix(text: &str) -> &str {
    match text {
        "0.0.0.0" | "" => "0.0.0.0/0",
        "::" => "::/0",
        other => other,
    }
}

/// The MTU: what the endpoint asks for, or what the adapter leaves after encapsulation.
pub fn mtu(endpoint: &Endpoint, network: &Network, site: &Site) -> Result<u16, CompileError> {
    let asked: Option<InterfaceParametersSettings> = policy::find(&endpoint.policies, &EndpointPolicyType::InterfaceParameters);
    let overhead: Option<EncapOverheadSettings> = policy::find(&endpoint.policies, &EndpointPolicyType::EncapOverhead);
    let whole = site.adapter.as_ref().map_or(MTU, |adapter| adapter.mtu);
    let taken = match (overhead, Mode::of(network)?) {
        (Some(overhead), _) => overhead.overhead,
        (None, Mode::Overlay) => {
            let own = site.adapter.as_ref().and_then(|adapter| adapter.addresses.first()).map(IpNet::addr);
            vxlan_overhead(super::network::overlay(network, own)?.provider.is_v4())
        }
        _ => 0,
    };
    let possible = whole.saturating_sub(taken);
    let mtu = asked.map(|asked| asked.mtu).filter(|mtu| *mtu > 0).map_or(possible, |asked| asked.min(possible));
    match mtu >= MTU_MIN || mtu >= 576 && !endpoint.ip_configurations.iter().any(|ip| ip.ip_address.contains(':')) {
        true => Ok(mtu),
        false => Err(CompileError::new("Mtu", format!("{mtu} bytes are too few; IPv6 needs 1280 and IPv4 576"))),
    }
}

/// The domain that an endpoint's packets are forwarded by.
fn domain(network: &Network, site: &Site) -> Result<DomainId, CompileError> {
    match Mode::of(network)?.has_domain() {
        true => site.domain.ok_or_else(|| CompileError::new("Type", "the network has no domain")),
        false => Ok(site.adapter()?.wire_domain),
    }
}

/// The port of an endpoint.
pub fn port(endpoint: &Endpoint, network: &Network, site: &Site) -> Result<PortSpec, CompileError> {
    let mode = Mode::of(network)?;
    let (mac, addresses) = (hardware_address(endpoint)?, addresses(endpoint)?);
    let guard = Guard::of(endpoint, mac, &addresses)?;
    let mut layers = guard.layers();
    layers.extend(access::layers(endpoint, network, site)?);
    if let (true, Some(adapter)) = (mode.has_services(), &site.adapter) {
        layers.extend(l4_proxy::layer(&endpoint.policies, &network.policies, &addresses, adapter)?);
    }
    layers.extend(site.services.map(super::service_layer));
    if mode.has_adapter() {
        layers.extend(outbound_nat::layer(&endpoint.policies, &super::network::prefixes(network)?, site)?);
    }
    Ok(PortSpec {
        name: label(endpoint),
        kind: PortKind::Nic,
        mac,
        addresses: guard.addresses,
        domain: domain(network, site)?,
        mtu: mtu(endpoint, network, site)?,
        hidden_behind: match (mode, &site.adapter) {
            (Mode::L2Bridge | Mode::L2Tunnel, Some(adapter)) => Some(source_mac_address::of(network, adapter)?),
            _ => None,
        },
        hairpin: false,
        router_guard: true,
        program: ProgramSpec { layers },
    })
}

/// How people know an endpoint.
pub fn label(endpoint: &Endpoint) -> String {
    match endpoint.name.is_empty() {
        true => endpoint.id.to_string(),
        false => endpoint.name.clone(),
    }
}

/// The rules that lead to an endpoint behind a port of this switch.
pub fn rules(endpoint: &Endpoint, network: &Network, site: &Site, port: PortId) -> Result<Vec<Placed>, CompileError> {
    let mode = Mode::of(network)?;
    let mut rules = match mode {
        Mode::L2Bridge => mode::l2bridge::endpoint(endpoint, network, site, port)?,
        Mode::L2Tunnel => mode::l2tunnel::endpoint(endpoint, network, site, port)?,
        Mode::Overlay => mode::overlay::endpoint(endpoint, network, port)?,
        Mode::Transparent => mode::transparent::endpoint(endpoint, port)?,
        Mode::Nat | Mode::Internal | Mode::Private => mode::internal::endpoint(endpoint, port)?,
    };
    if mode.has_adapter() {
        rules.extend(outbound_nat::answers(endpoint, site.adapter()?)?);
        rules.extend(sdn_route::rules(endpoint, mode, site.adapter()?)?);
    }
    Ok(rules)
}

/// The rules that lead to an endpoint on another node.
pub fn remote_rules(endpoint: &Endpoint, network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    match Mode::of(network)? {
        Mode::Overlay => mode::overlay::remote_endpoint(endpoint, network, site),
        Mode::L2Bridge => mode::l2bridge::remote_endpoint(endpoint, site),
        // Where there is no tunnel, the wire finds the way by itself.
        _ => Ok(Vec::new()),
    }
}
