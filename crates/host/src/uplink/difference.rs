//! What the vNIC should have and has not, and what it has and should not.

use std::net::IpAddr;

use super::{Takeover, TakeoverError};
use crate::netlink::{self, Address, NetlinkError, Route};

/// The table of the kernel's own routes to local addresses, which follow the addresses by themselves.
const LOCAL: u32 = 255;

impl Takeover {
    /// Gives the vNIC the adapter's addresses, and takes away those that the adapter has lost.
    pub(super) fn follow_addresses(&mut self) -> Result<(), TakeoverError> {
        let wanted = self.wanted_addresses()?;
        let (kept, stale): (Vec<_>, Vec<_>) =
            self.given.drain(..).partition(|given| wanted.iter().any(|address| address.network == given.network));
        self.given = kept;
        for address in stale {
            gone(self.netlink.delete_address(self.vnic_index, &address))?;
        }
        // Asked for after the deletions, which may have taken others along.
        let present = self.netlink.addresses(self.vnic_index)?;
        for address in wanted {
            if !present.iter().any(|other| is_same(other, &address)) {
                self.netlink.add_address(self.vnic_index, &address)?;
            }
            if !self.given.iter().any(|given| given.network == address.network) {
                self.given.push(address);
            }
        }
        Ok(())
    }

    /// Copies the adapter's routes that the vNIC does not have.
    pub(super) fn follow_routes(&mut self) -> Result<(), TakeoverError> {
        let present = self.own_routes()?;
        for route in self.wanted_routes()?.iter().filter(|route| !present.contains(route)) {
            match self.netlink.prepend_route(route) {
                Err(error) if !error.is_present() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes copies of routes that the adapter has no longer.
    pub(super) fn remove_stale_routes(&mut self) -> Result<(), TakeoverError> {
        let wanted = self.wanted_routes()?;
        let present = self.own_routes()?;
        present.iter().filter(|route| !wanted.contains(route)).try_for_each(|route| gone(self.netlink.delete_route(route)))?;
        Ok(())
    }

    pub(super) fn remove_routes(&mut self) -> Result<(), TakeoverError> {
        self.own_routes()?.iter().try_for_each(|route| gone(self.netlink.delete_route(route)))?;
        Ok(())
    }

    pub(super) fn remove_addresses(&mut self) -> Result<(), TakeoverError> {
        let given = std::mem::take(&mut self.given);
        given.iter().try_for_each(|address| gone(self.netlink.delete_address(self.vnic_index, address)))?;
        Ok(())
    }

    fn wanted_addresses(&self) -> Result<Vec<Address>, NetlinkError> {
        let usable = self.netlink.addresses(self.adapter_index)?.into_iter().filter(|address| !address.tentative);
        Ok(usable.map(copied_address).collect())
    }

    /// The copies of the adapter's routes, in the order in which they can be added.
    fn wanted_routes(&self) -> Result<Vec<Route>, NetlinkError> {
        let originals = self.netlink.routes(self.adapter_index)?.into_iter().filter(|route| route.table != LOCAL);
        // Of several IPv4 routes to the same destination the first counts, and the one that is prepended last becomes the first.
        let mut routes: Vec<Route> = originals.rev().flat_map(|route| preferred(self.copied_route(route))).collect();
        // A router can be named only when there is a route to it.
        routes.sort_by_key(|route| route.hops.iter().any(|hop| hop.gateway.is_some()));
        Ok(routes)
    }

    fn copied_route(&self, mut route: Route) -> Route {
        for hop in route.hops.iter_mut().filter(|hop| hop.index == self.adapter_index) {
            hop.index = self.vnic_index;
        }
        if route.destination.addr().is_ipv6() {
            // An IPv6 route comes after those of its metric, so it needs a lower one. Zero would mean the kernel's default.
            route.metric = route.metric.saturating_sub(1).max(1);
        }
        route.protocol = netlink::PROTOCOL;
        route
    }

    /// The routes on the vNIC that are ours.
    fn own_routes(&self) -> Result<Vec<Route>, NetlinkError> {
        let routes = self.netlink.routes(self.vnic_index)?;
        Ok(routes.into_iter().filter(|route| route.protocol == netlink::PROTOCOL).collect())
    }
}

/// A copy that is taken before its original. Of IPv4 routes with one metric the first is, except default routes: there the kernel changes
/// over to the one whose router it has heard of last. So the copy gets a lower metric, or where none is lower, two halves beside it that
/// are narrower.
fn preferred(mut route: Route) -> Vec<Route> {
    if !route.destination.addr().is_ipv4() || route.destination.prefix_len() != 0 {
        return vec![route];
    }
    if route.metric > 0 {
        route.metric -= 1;
        return vec![route];
    }
    let halves = ["0.0.0.0/1", "128.0.0.0/1"].into_iter().filter_map(|half| half.parse().ok());
    let mut routes = vec![route.clone()];
    for half in halves {
        route.destination = half;
        routes.push(route.clone());
    }
    routes
}

/// The vNIC's own of an address: known to be free, since it is the adapter's, and without a route, since routes are copied too.
fn copied_address(original: Address) -> Address {
    Address {
        nodad: matches!(original.network.addr(), IpAddr::V6(_)),
        noprefixroute: true,
        permanent: true,
        protocol: netlink::PROTOCOL,
        ..original
    }
}

fn is_same(one: &Address, other: &Address) -> bool {
    (one.network, one.peer, one.deprecated) == (other.network, other.peer, other.deprecated)
}

/// A deletion; what is gone already is no error.
fn gone(result: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match result {
        Err(error) if !error.is_missing() => Err(error),
        _ => Ok(()),
    }
}
