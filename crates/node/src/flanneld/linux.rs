//! flanneld's edges on Linux: interfaces, routes and tunnels by netlink, translation by nf_tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flannel::backend::Backend;
use flannel::backend::kernel::{self, Device, Tunnel};
use flannel::backend::router::{Route, Router};
use flannel::interface::Interface;
use flannel::net_conf::BackendConf;
use host::netlink::{self, Address, Forwarding, Hop, Link, Netlink, NetlinkError};
use host::nftables::Outbound;
use host::sysctl::{Family, Key};
use ipnet::IpNet;
use wire::MacAddress;

use super::Error;

/// The table of routes that count unless a rule says otherwise.
const MAIN: u32 = 254;

/// Addresses that only a default route leads to.
const FAR_AWAY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// What this machine tells of its interfaces.
pub(super) struct Machine;

impl flannel::agent::Machine for Machine {
    fn interfaces(&self) -> Result<Vec<Interface>, String> {
        interfaces().map_err(|error| error.to_string())
    }

    fn source_towards(&self, address: IpAddr) -> Result<Option<IpAddr>, String> {
        let hop = open()?.lookup(address, None).map_err(|error| error.to_string())?;
        Ok(hop.map(|hop| hop.source))
    }
}

/// The interfaces that can lead to other nodes. The vNIC of an adapter that a switch has taken is none: the adapter is.
fn interfaces() -> Result<Vec<Interface>, NetlinkError> {
    let netlink = Netlink::open()?;
    let source = match netlink.lookup(FAR_AWAY[0], None)? {
        Some(hop) => Some(hop.source),
        None => netlink.lookup(FAR_AWAY[1], None)?.map(|hop| hop.source),
    };
    let mut interfaces = Vec::new();
    for adapter in host::adapter::list() {
        // It may be gone by now.
        let Some(link) = netlink.link_by_index(adapter.index)? else { continue };
        let is_default = source.is_some_and(|source| adapter.addresses.iter().any(|address| address.addr() == source));
        interfaces.push(Interface { name: adapter.name, index: adapter.index, mtu: link.mtu, addresses: adapter.addresses, is_default });
    }
    Ok(interfaces)
}

/// The kernel's routes.
pub(super) fn router() -> Box<dyn Router> {
    Box::new(Kernel)
}

/// A backend on the kernel.
pub(super) fn kernel_backend(conf: &BackendConf) -> Result<Box<dyn Backend>, Error> {
    Ok(match conf {
        BackendConf::Vxlan(conf) => Box::new(kernel::Vxlan::new(Box::new(Kernel), conf)),
        BackendConf::HostGw(_) => Box::new(kernel::HostGw::new(Box::new(Kernel))),
    })
}

/// The kernel of this machine, as the namespace of this process has it.
struct Kernel;

impl Router for Kernel {
    fn routes(&self, interface: u32) -> Result<Vec<Route>, String> {
        let all = open()?.routes(interface).map_err(|error| error.to_string())?;
        let read = |route: &netlink::Route| match route.hops.as_slice() {
            [Hop { gateway: Some(gateway), onlink, .. }] if route.table == MAIN => {
                Some(Route { prefix: route.destination, gateway: *gateway, onlink: *onlink })
            }
            _ => None,
        };
        Ok(all.iter().filter_map(read).collect())
    }

    fn add(&self, interface: u32, route: &Route) -> Result<(), String> {
        let hop = Hop { index: interface, gateway: Some(route.gateway), onlink: route.onlink, ..Hop::default() };
        open()?.prepend_route(&netlink::Route::new(route.prefix, hop, 0)).map_err(|error| error.to_string())
    }

    fn remove(&self, interface: u32, route: &Route) -> Result<(), String> {
        let netlink = open()?;
        let is_it = |other: &&netlink::Route| {
            other.table == MAIN && other.destination == route.prefix && other.hops.iter().any(|hop| hop.gateway == Some(route.gateway))
        };
        for found in netlink.routes(interface).map_err(|error| error.to_string())?.iter().filter(is_it) {
            match netlink.delete_route(found) {
                Err(error) if !error.is_missing() => return Err(error.to_string()),
                _ => {}
            }
        }
        Ok(())
    }

    fn forward(&self, at: &[IpAddr]) -> Result<(), String> {
        for (v4, key) in [(true, Key::global("ipv4.ip_forward")), (false, Key::interface(Family::V6, "all", "forwarding"))] {
            if at.iter().any(|address| address.is_ipv4() == v4) {
                key.set("1").map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl kernel::Kernel for Kernel {
    fn ensure_tunnel(&self, tunnel: &Tunnel) -> Result<Device, String> {
        ensure_tunnel(tunnel).map_err(|error| error.to_string())
    }

    fn forwardings(&self, device: u32) -> Result<Vec<(MacAddress, IpAddr)>, String> {
        let entries = open()?.forwardings(device).map_err(|error| error.to_string())?;
        Ok(entries.into_iter().map(|entry| (entry.mac, entry.remote)).collect())
    }

    fn set_forwarding(&self, device: u32, mac: MacAddress, node: IpAddr) -> Result<(), String> {
        open()?.set_forwarding(device, &Forwarding { mac, remote: node }).map_err(|error| error.to_string())
    }

    fn remove_forwarding(&self, device: u32, mac: MacAddress, node: IpAddr) -> Result<(), String> {
        unless_gone(open()?.delete_forwarding(device, &Forwarding { mac, remote: node }))
    }

    fn neighbours(&self, device: u32) -> Result<Vec<(IpAddr, MacAddress)>, String> {
        let all = open()?.neighbours(device).map_err(|error| error.to_string())?;
        Ok(all
            .into_iter()
            .filter(|neighbour| neighbour.permanent)
            .filter_map(|neighbour| Some((neighbour.address, neighbour.mac?)))
            .collect())
    }

    fn set_neighbour(&self, device: u32, address: IpAddr, mac: MacAddress) -> Result<(), String> {
        open()?.set_neighbour(device, address, mac).map_err(|error| error.to_string())
    }

    fn remove_neighbour(&self, device: u32, address: IpAddr) -> Result<(), String> {
        unless_gone(open()?.delete_neighbour(device, address))
    }

    fn translate(&self, subnets: &[(IpNet, IpNet)]) -> Result<(), String> {
        let all: Vec<Outbound> = subnets.iter().map(|(subnet, network)| Outbound { subnet: *subnet, network: *network }).collect();
        match Outbound::install("flannel", &all) {
            // Where there is nothing to translate, it does not matter whether it could be.
            Err(_) if all.is_empty() => Ok(()),
            outcome => outcome.map_err(|error| error.to_string()),
        }
    }
}

fn ensure_tunnel(tunnel: &Tunnel) -> Result<Device, NetlinkError> {
    let netlink = Netlink::open()?;
    let wanted = netlink::Vxlan { vni: tunnel.vni, port: tunnel.port, local: Some(tunnel.local), parent: tunnel.parent };
    let link = match netlink.link_by_name(&tunnel.name)? {
        Some(link) if link.vxlan == Some(wanted) => link,
        other => make_tunnel(&netlink, tunnel, &wanted, other)?,
    };
    if link.mtu != tunnel.mtu {
        netlink.set_mtu(link.index, tunnel.mtu)?;
    }
    let there = netlink.addresses(link.index)?;
    for stale in there.iter().filter(|address| address.scope == 0 && !tunnel.addresses.contains(&address.network)) {
        netlink.delete_address(link.index, stale)?;
    }
    for missing in tunnel.addresses.iter().filter(|wanted| !there.iter().any(|address| address.network == **wanted)) {
        netlink.add_address(link.index, &Address::new(*missing))?;
    }
    if !link.up {
        netlink.set_up(link.index)?;
    }
    Ok(Device { index: link.index, mac: link.mac })
}

/// Makes the device, in place of another of its name. It gets the hardware address that others know: connections remember it.
fn make_tunnel(netlink: &Netlink, tunnel: &Tunnel, wanted: &netlink::Vxlan, other: Option<Link>) -> Result<Link, NetlinkError> {
    if let Some(other) = &other {
        tracing::info!(device = %tunnel.name, "the device is for another network or address; it goes");
        netlink.delete_link(other.index)?;
    }
    netlink.create_vxlan(&tunnel.name, wanted)?;
    let find = || netlink.link_by_name(&tunnel.name).map(Option::unwrap_or_default);
    let made = find()?;
    if let Some(mac) = tunnel.mac {
        netlink.set_mac(made.index, mac)?;
    }
    tracing::info!(device = %tunnel.name, "made the device");
    find()
}

fn unless_gone(outcome: Result<(), NetlinkError>) -> Result<(), String> {
    match outcome {
        Err(error) if !error.is_missing() => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn open() -> Result<Netlink, String> {
    Netlink::open().map_err(|error| error.to_string())
}
