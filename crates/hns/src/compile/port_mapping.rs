//! `PortMapping`: a port of the node led to an endpoint behind NAT.
//!
//! | field | meaning |
//! |---|---|
//! | `Protocol` | TCP (6) or UDP (17) |
//! | `InternalPort`, `ExternalPort` | of the endpoint, of the node |
//! | `VIP` | the node's address that it holds on; all of them if it is empty |
//!
//! A network behind NAT is translated by the node's own stack, as WinNAT does on Windows, and so are its mappings: they do not become rules of the
//! switch but translations of the node.

use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::load_balancer::ProtocolType;
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
