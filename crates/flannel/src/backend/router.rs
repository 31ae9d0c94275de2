//! Routes of the machine, for backends that need some.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address_like;
use crate::lease::Lease;
use crate::trouble::{Subject, Trouble};

/// A route by way of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is behind it.
    pub prefix: IpNet,
    /// The node.
    pub gateway: IpAddr,
    /// The node is on the link even if no address of the link says so.
    pub onlink: bool,
}

/// The machine as a router.
pub trait Router: Send {
    /// The routes by way of somebody on an interface.
    fn routes(&self, interface: u32) -> Result<Vec<Route>, String>;

    /// Adds a route. One to the same prefix by somebody else is gone by then.
    fn add(&self, interface: u32, route: &Route) -> Result<(), String>;

    /// Removes a route.
    fn remove(&self, interface: u32, route: &Route) -> Result<(), String>;

    /// Has the machine pass on packets that are not for itself, at least where it has these addresses.
    fn forward(&self, at: &[IpAddr]) -> Result<(), String>;
}

/// Makes the routes to peers those that there are within the pods' networks.
///
/// Whatever is routed there by way of another node is ours by meaning: pods are nowhere but behind nodes.
pub(super) fn reconcile(router: &dyn Router, interface: u32, networks: &[IpNet], wanted: &[Route], subject: Subject) -> Vec<Trouble> {
    let there = match router.routes(interface) {
        Ok(routes) => routes,
        Err(cause) => return vec![Trouble::new(subject, cause)],
    };
    let is_ours = |route: &&Route| networks.iter().any(|network| network.contains(&route.prefix));
    let stale = there.iter().filter(is_ours).filter(|route| !wanted.contains(route));
    let mut troubles: Vec<Trouble> = stale.filter_map(|route| told("removed", route, router.remove(interface, route), subject)).collect();
    let missing = wanted.iter().filter(|route| !there.contains(route));
    troubles.extend(missing.filter_map(|route| told("added", route, router.add(interface, route), subject)));
    troubles
}

fn told(done: &str, route: &Route, outcome: Result<(), String>, subject: Subject) -> Option<Trouble> {
    match outcome {
        Ok(()) => {
            tracing::info!(prefix = %route.prefix, by = %route.gateway, "a route was {done}");
            None
        }
        Err(cause) => Some(Trouble::new(subject, cause)),
    }
}

/// The routes to all subnets of peers by their addresses.
pub(super) fn by_address(peers: &[Lease]) -> Vec<Route> {
    let of_peer = |peer: &Lease| {
        let route = |subnet: &IpNet| {
            let gateway = address_like(&peer.addresses, subnet.addr().is_ipv4())?;
            Some(Route { prefix: *subnet, gateway, onlink: false })
        };
        peer.subnets.iter().filter_map(route).collect::<Vec<_>>()
    };
    peers.iter().flat_map(of_peer).collect()
}
