//! Which families a cluster has where its file does not say.

use hcn::profile::{Feature, Limit};
use ipnet::IpNet;
use serde_json::Value;

use super::{Mode, NetworkSpec, NodeSpec, Plugin, Topology};

/// Leaves IPv6 away where the file does not ask for it, and a node could not have it. Services have the families that pods have.
pub(super) fn settle(topology: &mut Topology, file: &Value) {
    let is_asked = |name: &str| !file["cluster"][name].is_null();
    let is_v4 = |range: &IpNet| range.addr().is_ipv4();
    if !is_asked("podSubnets") && !topology.nodes.iter().all(|node| has_both(node, topology.network_of(node))) {
        topology.cluster.pod_subnets.retain(is_v4);
    }
    if !is_asked("serviceSubnets") {
        let of_pods: Vec<bool> = topology.cluster.pod_subnets.iter().map(is_v4).collect();
        topology.cluster.service_subnets.retain(|range| of_pods.contains(&is_v4(range)));
    }
}

/// Whether pods of a node can have both families. azure-vnet's own IPAM and the plugin nat give out one address.
fn has_both(node: &NodeSpec, network: &NetworkSpec) -> bool {
    let Some(_) = node.profile() else { return true };
    match (network.mode, network.plugin()) {
        (_, Plugin::AzureVnet | Plugin::Nat) => false,
        (Mode::Overlay, _) => node.has(Feature::Ipv6DualStack) && !node.is_limited(Limit::OverlayNoIpv6),
        _ => node.has(Feature::Ipv6DualStack),
    }
}
