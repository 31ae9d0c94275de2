//! flanneld's edges on Windows: interfaces and routes by the IP helper.

use std::net::IpAddr;

use flannel::backend::Backend;
use flannel::backend::router::{Route, Router};
use flannel::interface::Interface;
use flannel::net_conf::BackendConf;
use host::interface;
use host::windows::forwarding;

use super::Error;

/// What this machine tells of its interfaces.
pub(super) struct Machine;

impl flannel::agent::Machine for Machine {
    fn interfaces(&self) -> Result<Vec<Interface>, String> {
        let read = |(it, more): (interface::Interface, interface::More)| Interface {
            name: it.name,
            index: more.index,
            mtu: more.mtu,
            addresses: it.addresses,
            is_default: more.has_gateway,
        };
        Ok(interface::list_with_more().into_iter().filter(|(it, _)| !it.addresses.is_empty()).map(read).collect())
    }

    /// As in the original.
    fn source_towards(&self, _address: IpAddr) -> Result<Option<IpAddr>, String> {
        Err("--iface-can-reach is not there on Windows; name the interface with --iface".to_owned())
    }
}

/// The machine's routes.
pub(super) fn router() -> Box<dyn Router> {
    Box::new(Windows)
}

/// There is none.
pub(super) fn kernel_backend(_conf: &BackendConf) -> Result<Box<dyn Backend>, Error> {
    Err(Error::Unsupported("on Windows pods are networked by HNS; leave --os out, or write --os windows".to_owned()))
}

struct Windows;

impl Router for Windows {
    fn routes(&self, interface: u32) -> Result<Vec<Route>, String> {
        let routes = forwarding::routes(interface).map_err(|error| format!("the routes cannot be listed: {error}"))?;
        Ok(routes.into_iter().map(|(prefix, gateway)| Route { prefix, gateway, onlink: false }).collect())
    }

    fn add(&self, interface: u32, route: &Route) -> Result<(), String> {
        let failed = |error| format!("the route to {} by {} cannot be added: {error}", route.prefix, route.gateway);
        forwarding::add_route(interface, route.prefix, route.gateway).map_err(failed)
    }

    fn remove(&self, interface: u32, route: &Route) -> Result<(), String> {
        let failed = |error| format!("the route to {} by {} cannot be removed: {error}", route.prefix, route.gateway);
        forwarding::remove_route(interface, route.prefix, route.gateway).map_err(failed)
    }

    fn forward(&self, at: &[IpAddr]) -> Result<(), String> {
        for (found, more) in interface::list_with_more() {
            for address in found.addresses.iter().map(ipnet::IpNet::addr).filter(|address| at.contains(address)) {
                let failed = |error| format!("forwarding cannot be enabled on {}: {error}", found.name);
                forwarding::forward(more.index, address.is_ipv4()).map_err(failed)?;
            }
        }
        Ok(())
    }
}
