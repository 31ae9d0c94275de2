//! A filter at the very entrance of a device: what it does not accept, the node's own network stack never sees.
//!
//! Packet sockets that listen to all protocols see everything all the same: they are served before the filter.

use std::io;
use std::net::IpAddr;

use nix::net::if_::if_nametoindex;

use super::batch::Family;
use super::error::NftError;
use super::expression::{Side, Steps};
use super::table::{Chain, Table};

const INGRESS: u32 = 0;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_ARP: u16 = 0x0806;

const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Where the IPv4 header has its fragment field; the offset and "more fragments" are zero in whole packets.
const FRAGMENT_OFFSET: u32 = 6;
const FRAGMENT_MASK: [u8; 2] = [0x3f, 0xff];
const IPV4_PROTOCOL_OFFSET: u32 = 9;
const IPV6_NEXT_HEADER_OFFSET: u32 = 6;
const ARP_OPERATION_OFFSET: u32 = 6;

/// Something that is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// UDP in one piece to this address and transport port.
    Udp(IpAddr, u16),
    /// UDP in one piece over IPv4 to this transport port, at any address.
    UdpV4(u16),
    /// UDP in one piece over IPv6 to this transport port, at any address.
    UdpV6(u16),
    /// Answers to ARP requests.
    ArpReply,
    /// An ICMPv6 message of this type, such as 136, a neighbour's advertisement.
    Icmpv6(u8),
}

/// The filter, for as long as this value lives.
#[derive(Debug)]
pub struct IngressFilter {
    table: Table,
}

impl IngressFilter {
    /// Puts a filter on a device of the calling thread's namespace. From now on only what is listed gets in.
    pub fn install(device: &str, accepted: &[Accept]) -> Result<Self, NftError> {
        if if_nametoindex(device).is_err() {
            let cause = io::Error::from_raw_os_error(libc::ENODEV);
            return Err(NftError::from_io(&format!("filter the device {device}"), cause));
        }
        let chain = Chain { name: "ingress", kind: "filter", hook: INGRESS, priority: 0, device: Some(device.to_owned()), drops: true };
        let table = Table::create(Family::Netdev, table_name(device), vec![chain], &[rules(accepted)])?;
        Ok(Self { table })
    }

    /// Lets through what is listed now, in place of what was before, at one instant.
    pub fn update(&mut self, accepted: &[Accept]) -> Result<(), NftError> {
        self.table.replace(&[rules(accepted)])
    }
}

/// The name of a device's table. Two filters cannot be on one device, since there cannot be two tables of a name.
fn table_name(device: &str) -> String {
    format!("transom-{device}")
}

fn rules(accepted: &[Accept]) -> Vec<Steps> {
    accepted.iter().map(|accept| matching(*accept).accept()).collect()
}

fn matching(accept: Accept) -> Steps {
    match accept {
        Accept::Udp(address @ IpAddr::V4(_), port) => udp_v4().address(Side::Destination, address).destination_port(port),
        Accept::Udp(address @ IpAddr::V6(_), port) => udp_v6().address(Side::Destination, address).destination_port(port),
        Accept::UdpV4(port) => udp_v4().destination_port(port),
        Accept::UdpV6(port) => udp_v6().destination_port(port),
        Accept::ArpReply => Steps::new().ether_type(ETHER_ARP).network(ARP_OPERATION_OFFSET, &[0, 2]),
        Accept::Icmpv6(kind) => {
            Steps::new().ether_type(ETHER_IPV6).network(IPV6_NEXT_HEADER_OFFSET, &[ICMPV6]).transport_header(0, &[kind])
        }
    }
}

fn udp_v4() -> Steps {
    Steps::new().ether_type(ETHER_IPV4).network(IPV4_PROTOCOL_OFFSET, &[UDP]).network_without(FRAGMENT_OFFSET, &FRAGMENT_MASK)
}

/// Fragments have a header of their own between the IPv6 header and UDP, and so do not match.
fn udp_v6() -> Steps {
    Steps::new().ether_type(ETHER_IPV6).network(IPV6_NEXT_HEADER_OFFSET, &[UDP])
}
