//! What pods and their nodes know of each other's Ethernet addresses.
//!
//! The kernel has room for about a thousand neighbours that it had to ask for, in all network namespaces of the machine together, and a pod
//! that is probed takes two of them: its gateway, and itself on its node. Where there are more pods than that nobody reaches anybody any
//! more. Neighbours that were set are not counted, so that those two are set once they are known.

use std::net::IpAddr;

use host::namespace::Namespace;
use host::netlink::{Neighbour, Netlink, NetlinkError};

/// The adapter of a pod.
const ADAPTER: &str = "eth0";

/// Sets what is known by now of a pod's gateways in the pod, and of the pod on its node.
pub(crate) fn keep(node: &Namespace, pod: &Namespace, addresses: &[IpAddr]) -> Result<(), NetlinkError> {
    let inside = Netlink::open_in(pod)?;
    if let Some(adapter) = inside.link_by_name(ADAPTER)? {
        let routes = inside.routes(adapter.index)?;
        let gateways: Vec<IpAddr> = routes.iter().flat_map(|route| &route.hops).filter_map(|hop| hop.gateway).collect();
        set(&inside, &gateways)?;
    }
    set(&Netlink::open_in(node)?, addresses)
}

fn set(netlink: &Netlink, addresses: &[IpAddr]) -> Result<(), NetlinkError> {
    for Neighbour { index, address, mac, permanent, failed, .. } in netlink.neighbours_at(addresses)? {
        if let Some(mac) = mac.filter(|_| !permanent && !failed) {
            netlink.set_neighbour(index, address, mac)?;
        }
    }
    Ok(())
}

/// Lets a node forget a pod that goes: another may get its addresses.
pub(crate) fn forget(node: &Namespace, addresses: &[IpAddr]) -> Result<(), NetlinkError> {
    let netlink = Netlink::open_in(node)?;
    for Neighbour { index, address, .. } in netlink.neighbours_at(addresses)?.into_iter().filter(|neighbour| neighbour.permanent) {
        netlink.delete_neighbour(index, address)?;
    }
    Ok(())
}
