//! From all Nodes to what this node should know.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use crate::lease::{self, Lease, Membership};
use crate::prefix_like;

/// This node, as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its name.
    pub name: String,
    /// The id of its Node, for events about it.
    pub uid: String,
    /// The subnets of its pods, one for each network.
    pub subnets: Vec<IpNet>,
    /// Its annotations of ours, by their names without the prefix.
    pub annotations: BTreeMap<String, String>,
    /// Whether the cluster believes that the node has a network.
    pub is_announced: bool,
}

/// What should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// This node.
    pub own: Own,
    /// All others that can be reached, in order of age.
    pub peers: Vec<Lease>,
    /// What is wrong with others.
    pub complaints: Vec<String>,
}

/// What should be, or why this node has no place in the cluster.
///
/// Without its own Node nothing is concluded from the others either: a list that lacks us is not one to remove routes by.
pub fn desired(nodes: &[Arc<Node>], name: &str, membership: &Membership) -> Result<Desired, String> {
    let own = own(nodes, name, membership)?;
    let mut others: Vec<&Arc<Node>> = nodes.iter().filter(|node| node.metadata.name.as_deref() != Some(name)).collect();
    // Of two Nodes that claim the same addresses the older one has them, whatever the order of the list.
    others.sort_by_key(|node| (node.metadata.creation_timestamp.as_ref().map(|time| time.0), node.metadata.name.clone()));
    let (mut peers, mut complaints) = (Vec::<Lease>::new(), Vec::new());
    for node in others {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        match lease::peer(node, membership) {
            Ok(None) => {}
            Ok(Some(lease)) => match overlap(&lease, &own, &peers) {
                None => peers.push(lease),
                Some(cause) => complaints.push(format!("node {name}: {cause}")),
            },
            Err(cause) => complaints.push(format!("node {name}: {cause}")),
        }
    }
    Ok(Desired { own, peers, complaints })
}

fn own(nodes: &[Arc<Node>], name: &str, membership: &Membership) -> Result<Own, String> {
    let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
    let node = node.ok_or_else(|| format!("there is no Node {name}; register it, or set NODE_NAME to the name it has"))?;
    let subnets = lease::subnets(node, &membership.networks).map_err(|cause| format!("node {name}: {cause}"))?;
    for network in &membership.networks {
        if prefix_like(&subnets, network.addr().is_ipv4()).is_none() {
            let remedy = "start kube-controller-manager with --allocate-node-cidrs and --cluster-cidr, or set spec.podCIDRs";
            return Err(format!("node {name} has no podCIDR within {network}; {remedy}"));
        }
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_announced = conditions.into_iter().any(|condition| condition.type_ == "NetworkUnavailable" && condition.status == "False");
    let uid = node.metadata.uid.clone().unwrap_or_default();
    Ok(Own { name: name.to_owned(), uid, subnets, annotations: membership.prefix.of(node), is_announced })
}

fn overlap(lease: &Lease, own: &Own, peers: &[Lease]) -> Option<String> {
    let others = std::iter::once((own.name.as_str(), &own.subnets)).chain(peers.iter().map(|peer| (peer.node.as_str(), &peer.subnets)));
    for (name, subnets) in others {
        for (one, other) in lease.subnets.iter().flat_map(|one| subnets.iter().map(move |other| (one, other))) {
            if one.contains(other) || other.contains(one) {
                return Some(format!("its podCIDR {one} overlaps {other} of node {name}, which was there first"));
            }
        }
    }
    let clash = |peer: &&Lease| peer.vtep.is_some() && peer.vtep == lease.vtep;
    peers.iter().find(clash).map(|peer| format!("its end of the tunnels has the hardware address of that of node {}", peer.node))
}

#[cfg(test)]
mod tests;
