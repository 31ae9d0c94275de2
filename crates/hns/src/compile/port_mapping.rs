//! `PortMapping`: a port of the node led to an endpoint.
//!
//! | field | meaning |
//! |---|---|
//! | `Protocol` | TCP (6) or UDP (17) |
//! | `InternalPort`, `ExternalPort` | of the endpoint, of the node |
//! | `VIP` | the node's address that it holds on; all of them if it is empty |
//!
//! A network behind NAT is translated by the node's own stack, as WinNAT does on Windows, and so are its mappings: they do not become rules of the
//! switch but translations of the node.
//!
//! On L2Bridge, L2Tunnel and Overlay networks a mapping is a load balancer with one backend: a node port, or with a `VIP` a virtual address. It is reached
//! from other machines, from pods of the network, and without a `VIP` from the node itself. The endpoint sees the client's address.

use std::net::IpAddr;

use hcn::Guid;
use hcn::endpoint::Endpoint;
use hcn::load_balancer::{LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping, ProtocolType};
use hcn::policy::endpoint::{EndpointPolicyType, PortMappingSettings};

use super::{CompileError, address, settings};

/// One port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The protocol number.
    pub protocol: u8,
    /// The node's address; any if there is none.
    pub external: Option<IpAddr>,
    /// The node's port.
    pub external_port: u16,
    /// The endpoint's address.
    pub internal: IpAddr,
    /// The endpoint's port.
    pub internal_port: u16,
}

/// The mappings of an endpoint, for each of its addresses.
pub fn mappings(endpoint: &Endpoint) -> Result<Vec<Mapping>, CompileError> {
    let policies: Vec<PortMappingSettings> = settings(&endpoint.policies, &EndpointPolicyType::PortMapping)?;
    let mut mappings = Vec::new();
    for policy in &policies {
        let protocol = match policy.protocol {
            ProtocolType::Tcp => 6,
            ProtocolType::Udp => 17,
            _ => return Err(CompileError::new("Protocol", "only TCP (6) and UDP (17) have ports to map")),
        };
        let external = match policy.vip.as_str() {
            "" | "0.0.0.0" | "::" => None,
            text => Some(address("VIP", text)?),
        };
        for ip in &endpoint.ip_configurations {
            let internal = address("IpAddress", &ip.ip_address)?;
            if external.is_none_or(|external| external.is_ipv4() == internal.is_ipv4()) {
                let (external_port, internal_port) = (policy.external_port, policy.internal_port);
                mappings.push(Mapping { protocol, external, external_port, internal, internal_port });
            }
        }
    }
    Ok(mappings)
}

/// The mappings of an endpoint as load balancers in front of it, which HNS itself does not know.
pub fn balancers(endpoint: &Endpoint) -> Result<Vec<LoadBalancer>, CompileError> {
    let mut balancers: Vec<LoadBalancer> = Vec::new();
    for mapping in mappings(endpoint)? {
        let id = balancer_id(endpoint.id, &mapping);
        // An endpoint with several addresses of a family is reached at the first.
        if balancers.iter().all(|other| other.id != id) {
            balancers.push(balancer(id, endpoint, &mapping));
        }
    }
    Ok(balancers)
}

fn balancer(id: Guid, endpoint: &Endpoint, mapping: &Mapping) -> LoadBalancer {
    let family = if mapping.internal.is_ipv6() { LoadBalancerFlags::IPV6 } else { LoadBalancerFlags::default() };
    let to_port = LoadBalancerPortMapping {
        protocol: if mapping.protocol == 6 { ProtocolType::Tcp } else { ProtocolType::Udp },
        internal_port: mapping.internal_port,
        external_port: mapping.external_port,
        ..LoadBalancerPortMapping::default()
    };
    LoadBalancer {
        id,
        name: format!("{} PortMapping", super::endpoint::label(endpoint)),
        network: endpoint.network,
        endpoints: vec![endpoint.id],
        frontend_vips: mapping.external.iter().map(IpAddr::to_string).collect(),
        port_mappings: vec![to_port],
        flags: LoadBalancerFlags::DSR.with(family),
        ..LoadBalancer::default()
    }
}

/// The same for the same mapping of the same endpoint, and another for any other (FNV-1a).
fn balancer_id(endpoint: Guid, mapping: &Mapping) -> Guid {
    let text = format!("{endpoint} {} {:?} {} {}", mapping.protocol, mapping.external, mapping.external_port, mapping.internal.is_ipv4());
    let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    Guid::from_u128(hash)
}
