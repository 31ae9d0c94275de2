//! Every network interface of the machine that has an Ethernet address, up or not.

use ipnet::IpNet;

/// An interface by the name that people know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0` or `Ethernet`.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its addresses, each with the length of its subnet's prefix.
    pub addresses: Vec<IpNet>,
}

/// What Windows tells of an interface besides; elsewhere there is netlink.
#[cfg(windows)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Its number.
    pub index: u32,
    /// The largest packet it takes.
    pub mtu: u32,
    /// Whether there is a gateway on it.
    pub has_gateway: bool,
}

/// All of them, in the system's order. Loopback has no Ethernet address.
#[cfg(unix)]
pub fn list() -> Vec<Interface> {
    let Ok(entries) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let entries: Vec<nix::ifaddrs::InterfaceAddress> = entries.collect();
    let interface = |entry: &nix::ifaddrs::InterfaceAddress| {
        let mac = entry.address.as_ref()?.as_link_addr()?.addr()?;
        let ours = entries.iter().filter(|other| other.interface_name == entry.interface_name);
        Some(Interface { name: entry.interface_name.clone(), mac, addresses: ours.filter_map(network).collect() })
    };
    entries.iter().filter_map(interface).filter(|interface| interface.mac != [0; 6]).collect()
}

/// The address that an entry is about, if it is one of IP.
#[cfg(unix)]
fn network(entry: &nix::ifaddrs::InterfaceAddress) -> Option<IpNet> {
    let ip = |storage: &Option<nix::sys::socket::SockaddrStorage>| -> Option<std::net::IpAddr> {
        let storage = storage.as_ref()?;
        let v4 = || storage.as_sockaddr_in().map(|address| address.ip().into());
        v4().or_else(|| storage.as_sockaddr_in6().map(|address| address.ip().into()))
    };
    IpNet::with_netmask(ip(&entry.address)?, ip(&entry.netmask)?).ok()
}

/// All of them, in the system's order.
#[cfg(windows)]
pub fn list() -> Vec<Interface> {
    list_with_more().into_iter().map(|(interface, _)| interface).collect()
}

/// All of them with what Windows tells besides, in the system's order.
#[cfg(windows)]
#[allow(unsafe_code)]
pub fn list_with_more() -> Vec<(Interface, More)> {
    use windows_sys::Win32::Foundation::{ERROR_BUFFER_OVERFLOW, NO_ERROR};
    use windows_sys::Win32::NetworkManagement::IpHelper::{GAA_FLAG_INCLUDE_GATEWAYS, GetAdaptersAddresses, IP_ADAPTER_ADDRESSES_LH};

    const WORD: usize = size_of::<u64>();
    // Whatever the family, every adapter is told once.
    const ANY_FAMILY: u32 = 0;
    let mut buffer = vec![0u64; 2048];
    // Adapters may come while we ask, so that the size told is only good for another try.
    for _ in 0..4 {
        let mut size = u32::try_from(buffer.len() * WORD).unwrap_or(u32::MAX);
        let first: *mut IP_ADAPTER_ADDRESSES_LH = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer has `size` bytes, is aligned for the structure, and lives until the list was walked.
        match unsafe { GetAdaptersAddresses(ANY_FAMILY, GAA_FLAG_INCLUDE_GATEWAYS, std::ptr::null(), first, &mut size) } {
            ERROR_BUFFER_OVERFLOW => buffer = vec![0; size as usize / WORD + 1],
            // SAFETY: the call has filled the buffer with a list that ends in a null pointer.
            NO_ERROR => return unsafe { walk(first) },
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

/// # Safety
///
/// The pointer is to a list that the system made, in memory that is still there.
#[cfg(windows)]
#[allow(unsafe_code)]
unsafe fn walk(first: *const windows_sys::Win32::NetworkManagement::IpHelper::IP_ADAPTER_ADDRESSES_LH) -> Vec<(Interface, More)> {
    let mut interfaces = Vec::new();
    let mut next = first;
    // SAFETY: the caller says that every element is there up to the null pointer at the end.
    while let Some(adapter) = unsafe { next.as_ref() } {
        next = adapter.Next;
        let mac = adapter.PhysicalAddress.first_chunk::<6>().copied().unwrap_or_default();
        if adapter.PhysicalAddressLength == 6 && mac != [0; 6] {
            // SAFETY: the name is a text of 16-bit characters with a zero at its end.
            let name = unsafe { text(adapter.FriendlyName) };
            // SAFETY: the list of addresses is part of the same memory.
            let addresses = unsafe { networks(adapter.FirstUnicastAddress) };
            // SAFETY: every form of the union begins with length and number.
            let index = unsafe { adapter.Anonymous1.Anonymous.IfIndex };
            // An interface without IPv4 has its number under IPv6 only.
            let index = if index == 0 { adapter.Ipv6IfIndex } else { index };
            let more = More { index, mtu: adapter.Mtu, has_gateway: !adapter.FirstGatewayAddress.is_null() };
            interfaces.push((Interface { name, mac, addresses }, more));
        }
    }
    interfaces
}

/// # Safety
///
/// The pointer is to a list of addresses that the system made, in memory that is still there.
#[cfg(windows)]
#[allow(unsafe_code)]
unsafe fn networks(first: *const windows_sys::Win32::NetworkManagement::IpHelper::IP_ADAPTER_UNICAST_ADDRESS_LH) -> Vec<IpNet> {
    use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6, SOCKADDR_IN, SOCKADDR_IN6};

    let mut networks = Vec::new();
    let mut next = first;
    // SAFETY: the caller says that every element is there up to the null pointer at the end.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.Next;
        let address = entry.Address.lpSockaddr;
        // SAFETY: a socket address begins with its family, which says what the rest is.
        let ip: Option<std::net::IpAddr> = match unsafe { address.as_ref() }.map(|address| address.sa_family) {
            // SAFETY: as above.
            Some(AF_INET) => Some(u32::from_be(unsafe { (*address.cast::<SOCKADDR_IN>()).sin_addr.S_un.S_addr }).to_be_bytes().into()),
            // SAFETY: as above.
            Some(AF_INET6) => Some(unsafe { (*address.cast::<SOCKADDR_IN6>()).sin6_addr.u.Byte }.into()),
            _ => None,
        };
        networks.extend(ip.and_then(|ip| IpNet::new(ip, entry.OnLinkPrefixLength).ok()));
    }
    networks
}

/// # Safety
///
/// The pointer is null, or to 16-bit characters with a zero at their end.
#[cfg(windows)]
#[allow(unsafe_code)]
unsafe fn text(characters: *const u16) -> String {
    if characters.is_null() {
        return String::new();
    }
    let mut units = Vec::new();
    // SAFETY: no unit is read after the zero that the caller says is there.
    while let unit @ 1.. = unsafe { *characters.add(units.len()) } {
        units.push(unit);
    }
    String::from_utf16_lossy(&units)
}
