//! The network adapters of the machine.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;
use wire::MacAddress;

/// How the names of the node's own vNICs on a virtual switch begin. They are no adapters.
pub const VNIC_PREFIX: &str = "vEth-";

/// A network adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAdapter {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its addresses with their prefixes.
    pub addresses: Vec<IpNet>,
}

/// All Ethernet adapters that are up and have an address, by number. Loopback is none.
pub fn list() -> Vec<HostAdapter> {
    let mut adapters: BTreeMap<String, HostAdapter> = BTreeMap::new();
    let Ok(entries) = getifaddrs() else {
        return Vec::new();
    };
    for entry in entries.filter(is_usable) {
        let adapter = adapters.entry(entry.interface_name.clone()).or_default();
        note(adapter, &entry);
    }
    let mut usable: Vec<HostAdapter> =
        adapters.into_values().filter(|adapter| adapter.mac != MacAddress::default() && !adapter.addresses.is_empty()).collect();
    usable.sort_by_key(|adapter| adapter.index);
    usable
}

fn is_usable(entry: &InterfaceAddress) -> bool {
    let vnic = entry.interface_name.starts_with(VNIC_PREFIX);
    !vnic && entry.flags.contains(InterfaceFlags::IFF_UP) && !entry.flags.contains(InterfaceFlags::IFF_LOOPBACK)
}

fn note(adapter: &mut HostAdapter, entry: &InterfaceAddress) {
    if adapter.name.is_empty() {
        adapter.name.clone_from(&entry.interface_name);
        adapter.index = if_nametoindex(entry.interface_name.as_str()).unwrap_or_default();
    }
    let Some(address) = &entry.address else {
        return;
    };
    if let Some(link) = address.as_link_addr().and_then(|link| link.addr()) {
        adapter.mac = MacAddress(link);
    }
    adapter.addresses.extend(prefix(address, entry.netmask.as_ref()));
}

fn prefix(address: &SockaddrStorage, mask: Option<&SockaddrStorage>) -> Option<IpNet> {
    let address = ip(address)?;
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let mask = mask.and_then(ip).filter(|_| !link_local)?;
    IpNet::with_netmask(address, mask).ok()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}
