//! Routes of the machine, and which interfaces pass packets on.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use windows_sys::Win32::NetworkManagement::IpHelper::{
    CreateIpForwardEntry2, DeleteIpForwardEntry2, FreeMibTable, GetIpForwardTable2, GetIpInterfaceEntry, InitializeIpForwardEntry,
    InitializeIpInterfaceEntry, MIB_IPFORWARD_ROW2, MIB_IPFORWARD_TABLE2, MIB_IPINTERFACE_ROW, SetIpInterfaceEntry,
};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6, AF_UNSPEC, SOCKADDR_INET};

/// The number with which routes say that an administrator has made them (`MIB_IPPROTO_NETMGMT`).
const BY_ADMINISTRATOR: i32 = 3;

/// The routes by way of somebody on an interface: what is behind, and who.
#[allow(unsafe_code)]
pub fn routes(interface: u32) -> io::Result<Vec<(IpNet, IpAddr)>> {
    let mut table: *mut MIB_IPFORWARD_TABLE2 = std::ptr::null_mut();
    // SAFETY: the pointer is to a place for the table, which the system makes.
    checked(unsafe { GetIpForwardTable2(AF_UNSPEC, &mut table) })?;
    // SAFETY: the call has made a table, whose first row is followed by as many as it says.
    let rows =
        unsafe { std::slice::from_raw_parts((&raw const (*table).Table).cast::<MIB_IPFORWARD_ROW2>(), (*table).NumEntries as usize) };
    let found = rows.iter().filter(|row| row.InterfaceIndex == interface).filter_map(read).collect();
    // SAFETY: the system has made it, and nothing of it is kept.
    unsafe { FreeMibTable(table.cast()) };
    Ok(found)
}

/// Adds a route for as long as the machine runs.
#[allow(unsafe_code)]
pub fn add_route(interface: u32, prefix: IpNet, gateway: IpAddr) -> io::Result<()> {
    let row = row(interface, prefix, gateway);
    // SAFETY: the row is complete.
    checked(unsafe { CreateIpForwardEntry2(&row) })
}

/// Removes a route.
#[allow(unsafe_code)]
pub fn remove_route(interface: u32, prefix: IpNet, gateway: IpAddr) -> io::Result<()> {
    let row = row(interface, prefix, gateway);
    // SAFETY: the row is complete.
    checked(unsafe { DeleteIpForwardEntry2(&row) })
}

/// Has an interface pass on packets that are not for the machine.
#[allow(unsafe_code)]
pub fn forward(interface: u32, v4: bool) -> io::Result<()> {
    // SAFETY: all zeros are a row, and the call completes it.
    let mut row: MIB_IPINTERFACE_ROW = unsafe { std::mem::zeroed() };
    // SAFETY: the row is there.
    unsafe { InitializeIpInterfaceEntry(&mut row) };
    (row.Family, row.InterfaceIndex) = (if v4 { AF_INET } else { AF_INET6 }, interface);
    // SAFETY: the row says which interface is meant.
    checked(unsafe { GetIpInterfaceEntry(&mut row) })?;
    if row.ForwardingEnabled {
        return Ok(());
    }
    row.ForwardingEnabled = true;
    if v4 {
        // Whoever sets a row of IPv4 must clear it.
        row.SitePrefixLength = 0;
    }
    // SAFETY: the row is one that the system has just told.
    checked(unsafe { SetIpInterfaceEntry(&mut row) })
}

fn checked(code: u32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.cast_signed())) }
}

fn read(row: &MIB_IPFORWARD_ROW2) -> Option<(IpNet, IpAddr)> {
    let prefix = IpNet::new(ip(&row.DestinationPrefix.Prefix)?, row.DestinationPrefix.PrefixLength).ok()?;
    let gateway = ip(&row.NextHop).filter(|gateway| !gateway.is_unspecified())?;
    Some((prefix, gateway))
}

#[allow(unsafe_code)]
fn row(interface: u32, prefix: IpNet, gateway: IpAddr) -> MIB_IPFORWARD_ROW2 {
    // SAFETY: all zeros are a row, and the call completes it.
    let mut row: MIB_IPFORWARD_ROW2 = unsafe { std::mem::zeroed() };
    // SAFETY: the row is there.
    unsafe { InitializeIpForwardEntry(&mut row) };
    row.InterfaceIndex = interface;
    row.DestinationPrefix.Prefix = socket_address(prefix.network());
    row.DestinationPrefix.PrefixLength = prefix.prefix_len();
    row.NextHop = socket_address(gateway);
    (row.Metric, row.Protocol) = (0, BY_ADMINISTRATOR);
    row
}

#[allow(unsafe_code)]
fn ip(address: &SOCKADDR_INET) -> Option<IpAddr> {
    // SAFETY: every form begins with the family, which says what the rest is.
    match unsafe { address.si_family } {
        // SAFETY: as above.
        AF_INET => Some(u32::from_be(unsafe { address.Ipv4.sin_addr.S_un.S_addr }).to_be_bytes().into()),
        // SAFETY: as above.
        AF_INET6 => Some(unsafe { address.Ipv6.sin6_addr.u.Byte }.into()),
        _ => None,
    }
}

#[allow(unsafe_code)]
fn socket_address(address: IpAddr) -> SOCKADDR_INET {
    // SAFETY: all zeros are an address of no family.
    let mut socket: SOCKADDR_INET = unsafe { std::mem::zeroed() };
    match address {
        IpAddr::V4(address) => {
            socket.Ipv4.sin_family = AF_INET;
            socket.Ipv4.sin_addr.S_un.S_addr = u32::from(address).to_be();
        }
        IpAddr::V6(address) => {
            socket.Ipv6.sin6_family = AF_INET6;
            socket.Ipv6.sin6_addr.u.Byte = address.octets();
        }
    }
    socket
}
