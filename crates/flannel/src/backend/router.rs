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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A router that has some routes, and refuses one.
    struct Fake {
        routes: Mutex<Vec<Route>>,
        refused: Route,
    }

    impl Router for Fake {
        fn routes(&self, _interface: u32) -> Result<Vec<Route>, String> {
            Ok(self.routes.lock().unwrap().clone())
        }

        fn add(&self, _interface: u32, route: &Route) -> Result<(), String> {
            if *route == self.refused {
                return Err(format!("{} is refused", route.prefix));
            }
            self.routes.lock().unwrap().push(*route);
            Ok(())
        }

        fn remove(&self, _interface: u32, route: &Route) -> Result<(), String> {
            self.routes.lock().unwrap().retain(|other| other != route);
            Ok(())
        }

        fn forward(&self, _at: &[IpAddr]) -> Result<(), String> {
            Ok(())
        }
    }

    fn route(prefix: &str, gateway: &str) -> Route {
        Route { prefix: prefix.parse().unwrap(), gateway: gateway.parse().unwrap(), onlink: false }
    }

    #[test]
    fn only_routes_within_the_pods_networks_are_touched_and_one_failure_is_one() {
        let outside = route("0.0.0.0/0", "192.168.0.254");
        let (kept, moved, gone) =
            (route("10.244.2.0/24", "192.168.0.2"), route("10.244.3.0/24", "192.168.0.3"), route("10.244.9.0/24", "192.168.0.9"));
        let (moved_to, refused, new) =
            (route("10.244.3.0/24", "192.168.0.33"), route("10.244.4.0/24", "172.16.0.4"), route("10.244.5.0/24", "192.168.0.5"));
        let fake = Fake { routes: Mutex::new(vec![outside, kept, moved, gone]), refused };
        let networks = ["10.244.0.0/16".parse().unwrap()];
        let troubles = reconcile(&fake, 1, &networks, &[kept, moved_to, refused, new], Subject::Kernel);
        assert_eq!(troubles, [Trouble::new(Subject::Kernel, "10.244.4.0/24 is refused")]);
        assert_eq!(fake.routes(1).unwrap(), [outside, kept, moved_to, new]);
    }
}
