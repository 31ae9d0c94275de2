//! What counts of a load balancer: where two are alike in it, nothing has to be changed, whatever HNS added to one of them.
//!
//! It is kept instead of the document. A node has thousands of load balancers, and a document takes several times the room.

use hcn::Guid;
use hcn::load_balancer::{LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping};

use crate::plan::EXTRAS;

/// What counts of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The endpoints of its backends, in order.
    pub endpoints: Box<[Guid]>,
    mappings: Box<[Mapping]>,
    flags: LoadBalancerFlags,
    source_vip: Box<str>,
    /// Those of the fields that Windows does not have which are there, printed.
    extras: Box<str>,
}

/// Protocol, internal port, external port, distribution type and flags.
type Mapping = (Option<u64>, u16, u16, Option<u64>, u32);

impl Shape {
    /// Reads a document.
    pub fn of(document: &LoadBalancer) -> Self {
        let mut endpoints = document.endpoints.clone();
        endpoints.sort_unstable();
        endpoints.dedup();
        let mut mappings: Vec<Mapping> = document.port_mappings.iter().map(mapping).collect();
        mappings.sort_unstable();
        Self {
            endpoints: endpoints.into(),
            mappings: mappings.into(),
            flags: document.flags,
            source_vip: document.source_vip.to_ascii_lowercase().into(),
            extras: extras(document).into(),
        }
    }
}

fn mapping(mapping: &LoadBalancerPortMapping) -> Mapping {
    (mapping.protocol.number(), mapping.internal_port, mapping.external_port, mapping.distribution_type.number(), mapping.flags.0)
}

fn extras(document: &LoadBalancer) -> String {
    let Some(params) = document.additional_params.as_deref() else { return String::new() };
    let found = EXTRAS.iter().filter_map(|name| Some(format!("{name}={}", params.get(*name)?)));
    found.collect::<Vec<_>>().join("\n")
}
