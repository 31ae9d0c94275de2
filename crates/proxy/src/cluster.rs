//! What the cluster says, as one value: everything that a sync needs to know of it.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use crate::backend::{self, Backends, SeenSlice};
use crate::selection::Location;
use crate::service::{SeenService, ServiceName, ServicePort};

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
    /// Puts together what was seen, as the node of this name.
    pub fn of(node_name: &str, node: Option<&Node>, services: &[Arc<SeenService>], slices: &[Arc<SeenSlice>]) -> Self {
        let mut ports: Vec<ServicePort> = services.iter().flat_map(|service| &service.ports).cloned().collect();
        ports.sort_by(|a, b| a.key.cmp(&b.key));
        let complaints =
            services.iter().flat_map(|it| &it.complaints).chain(slices.iter().flat_map(|it| &it.complaints)).cloned().collect();
        let backends = backend::offered(slices.iter().map(|slice| &**slice));
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

/// The addresses of the pods of a node.
pub fn pod_subnets(node: &Node) -> Vec<IpNet> {
    let spec = node.spec.iter();
    let texts = spec.flat_map(|spec| spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr));
    let mut found: Vec<IpNet> = texts.filter_map(|text| text.parse::<IpNet>().ok()).map(|subnet| subnet.trunc()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether load balancers should send clients to this node: not while it goes.
pub fn is_eligible(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    node.metadata.deletion_timestamp.is_none() && !taints.into_iter().any(|taint| taint.key == TO_BE_DELETED)
}
