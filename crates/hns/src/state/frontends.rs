//! What can be taken only once: the frontends of load balancers and the host's ports that lead to endpoints.

use std::net::IpAddr;

use hcn::Guid;
use hcn::endpoint::Endpoint;
use hcn::load_balancer::{LoadBalancer, LoadBalancerFlags};
use hcn::network::{Network, NetworkType};
use hcn::policy::endpoint::{EndpointPolicyType, NatFlags, PortMappingSettings};

/// A virtual address and port. Without an address it is a port on every address of the host, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frontend {
    pub address: Option<IpAddr>,
    pub ipv6: bool,
    pub protocol: u64,
    pub port: u16,
}

/// A port of the host that leads to an endpoint. The address comes last, so that all owners of a port stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    /// The network whose ports they are; none where the host's ports are everybody's.
    pub network: Guid,
    pub ipv6: bool,
    pub protocol: u64,
    pub port: u16,
    /// None is every address of the host.
    pub address: Option<IpAddr>,
}

impl HostPort {
    /// The frontends of load balancers that leave no room for it. Without an address it is of both families.
    pub(crate) fn frontends(&self) -> Vec<Frontend> {
        let of = |address: Option<IpAddr>, ipv6: bool| Frontend { address, ipv6, protocol: self.protocol, port: self.port };
        match self.address {
            Some(address) => vec![of(Some(address), address.is_ipv6()), of(None, address.is_ipv6())],
            None => vec![of(None, false), of(None, true)],
        }
    }

    /// Whether two of them cannot both be had.
    pub(crate) fn conflicts(&self, other: &HostPort) -> bool {
        let same = (self.network, self.ipv6, self.protocol, self.port) == (other.network, other.ipv6, other.protocol, other.port);
        same && (self.address.is_none() || other.address.is_none() || self.address == other.address)
    }
}

impl Frontend {
    /// A port of the host that an endpoint may have as well.
    pub(crate) fn host_port(&self) -> HostPort {
        HostPort { network: Guid::nil(), ipv6: self.ipv6, protocol: self.protocol, port: self.port, address: self.address }
    }
}

/// The frontends a load balancer asks for.
pub(crate) fn frontends_of(balancer: &LoadBalancer) -> Vec<Frontend> {
    let ipv6 = balancer.flags.has(LoadBalancerFlags::IPV6);
    let addresses: Vec<Option<IpAddr>> = match balancer.frontend_vips.is_empty() {
        true => vec![None],
        false => balancer.frontend_vips.iter().filter_map(|vip| vip.parse().ok()).map(Some).collect(),
    };
    let mut frontends = Vec::with_capacity(addresses.len() * balancer.port_mappings.len());
    for mapping in &balancer.port_mappings {
        let protocol = mapping.protocol.number().unwrap_or_default();
        for address in &addresses {
            let ipv6 = address.map_or(ipv6, |address| address.is_ipv6());
            frontends.push(Frontend { address: *address, ipv6, protocol, port: mapping.external_port });
        }
    }
    frontends
}

/// The network whose ports an endpoint's mappings take: where there are mappings they are the host's own, whichever network it is.
pub(crate) fn ports_belong_to(network: &Network) -> Guid {
    match network.network_type {
        NetworkType::Nat | NetworkType::Ics | NetworkType::ConstrainedIcs => Guid::nil(),
        NetworkType::L2Bridge | NetworkType::L2Tunnel | NetworkType::Overlay => Guid::nil(),
        _ => network.id,
    }
}

/// The ports of the host that an endpoint asks for.
pub(crate) fn host_ports_of(endpoint: &Endpoint, owner: Guid) -> Vec<HostPort> {
    let mappings = endpoint.policies.iter().filter(|policy| policy.is(&EndpointPolicyType::PortMapping));
    mappings.filter_map(|policy| policy.settings().ok()).map(|settings| host_port(owner, &settings)).collect()
}

/// The port of the host that one mapping asks for.
pub(crate) fn host_port(owner: Guid, settings: &PortMappingSettings) -> HostPort {
    let address: Option<IpAddr> = settings.vip.parse().ok();
    HostPort {
        network: owner,
        ipv6: address.map_or(settings.flags.has(NatFlags::IPV6), |address| address.is_ipv6()),
        protocol: settings.protocol.number().unwrap_or_default(),
        port: settings.external_port,
        address,
    }
}
