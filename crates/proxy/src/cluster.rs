//! What the cluster says, as one value: everything that a sync needs to know of it.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::backend::{self, Backends};
use crate::selection::Location;
use crate::service::{self, ServiceName, ServicePort};

/// The label by which a node says in which zone it is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The taint of a node that is about to be taken away.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Services and their backends, as this node sees them.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Where this node is.
    pub here: Location,
    /// The ports of all Services.
    pub ports: Vec<ServicePort>,
    /// The backends of all ports.
    pub backends: Backends,
    /// What is wrong with the documents, and whose it is.
    pub complaints: Vec<(ServiceName, String)>,
}

impl Cluster {
    /// Reads everything, as the node of this name.
    pub fn read<'a>(
        node_name: &str,
        node: Option<&Node>,
        services: impl IntoIterator<Item = &'a Service>,
        slices: impl IntoIterator<Item = &'a EndpointSlice>,
    ) -> Self {
        let mut complaints = Vec::new();
        let mut complain = |service: &ServiceName, cause: String| complaints.push((service.clone(), cause));
        let mut ports: Vec<ServicePort> = services.into_iter().flat_map(|service| service::read(service, &mut complain)).collect();
        ports.sort_by(|a, b| a.key.cmp(&b.key));
        let backends = backend::read(slices, node_name, &mut complain);
        let here = Location { node: node_name.to_owned(), zone: node.and_then(zone) };
        Self { here, ports, backends, complaints }
    }
}

fn zone(node: &Node) -> Option<String> {
    node.metadata.labels.as_ref()?.get(ZONE).filter(|zone| !zone.is_empty()).cloned()
}

/// The addresses of a node, its own before those it is known by outside: the first, and the first of the other family.
pub fn node_addresses(node: &Node) -> Vec<IpAddr> {
    let listed = || node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let of_type = |kind: &'static str| listed().filter(move |address| address.type_ == kind);
    let all = of_type("InternalIP").chain(of_type("ExternalIP")).filter_map(|address| address.address.parse::<IpAddr>().ok());
    let mut found: Vec<IpAddr> = Vec::new();
    for address in all {
        if found.iter().all(|known| known.is_ipv4() != address.is_ipv4()) {
            found.push(address);
        }
    }
    found
}

/// Whether load balancers should send clients to this node: not while it goes.
pub fn is_eligible(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    node.metadata.deletion_timestamp.is_none() && !taints.into_iter().any(|taint| taint.key == TO_BE_DELETED)
}
