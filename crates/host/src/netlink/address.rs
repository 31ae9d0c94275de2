//! The IP addresses of links.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope, CacheInfo};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Netlink, NetlinkError};

/// A lifetime without end.
const FOREVER: u32 = u32::MAX;

/// An address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address and the prefix it is in.
    pub network: IpNet,
    /// The address at the other end, for a link that leads to one other only.
    pub peer: Option<IpAddr>,
    /// How far it is known: 0 everywhere, 253 on the link, 254 on the host.
    pub scope: u8,
    /// It is not checked for being taken by somebody else (IPv6).
    pub nodad: bool,
    /// The kernel makes no route to the prefix for it.
    pub noprefixroute: bool,
    /// It is not used for new connections.
    pub deprecated: bool,
    /// It is being checked, or the check found it taken (IPv6); either way it does not work.
    pub tentative: bool,
    /// It lives until it is deleted.
    pub permanent: bool,
    /// Who made it: [`super::PROTOCOL`] if we did, zero where nobody said.
    pub protocol: u8,
}

impl Address {
    /// An address that is to stay until it is deleted, used at once, with a route to its prefix.
    pub fn new(network: IpNet) -> Self {
        let link_local = matches!(network.addr(), IpAddr::V6(address) if address.is_unicast_link_local());
        Self {
            network,
            peer: None,
            scope: if link_local { u8::from(AddressScope::Link) } else { 0 },
            nodad: network.addr().is_ipv6(),
            noprefixroute: false,
            deprecated: false,
            tentative: false,
            permanent: true,
            protocol: super::PROTOCOL,
        }
    }

    pub(super) fn read(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut prefix, mut protocol) = (None, None, 0);
        let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(address) => local = Some(*address),
                AddressAttribute::Address(address) => prefix = Some(*address),
                AddressAttribute::Flags(all) => flags = *all,
                AddressAttribute::Protocol(number) => protocol = u8::from(*number),
                _ => {}
            }
        }
        Some(Self {
            network: IpNet::new(local.or(prefix)?, message.header.prefix_len).ok()?,
            peer: prefix.filter(|prefix| local.is_some_and(|local| local != *prefix)),
            scope: u8::from(message.header.scope),
            nodad: flags.contains(AddressFlags::Nodad),
            noprefixroute: flags.contains(AddressFlags::Noprefixroute),
            deprecated: flags.contains(AddressFlags::Deprecated),
            tentative: flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
            permanent: flags.contains(AddressFlags::Permanent),
            protocol,
        })
    }

    fn message(&self, index: u32) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = if self.network.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.prefix_len = self.network.prefix_len();
        message.header.scope = AddressScope::from(self.scope);
        message.header.index = index;
        let local = AddressAttribute::Local(self.network.addr());
        message.attributes = vec![local, AddressAttribute::Address(self.peer.unwrap_or(self.network.addr()))];
        message
    }

    fn options(&self) -> Vec<AddressAttribute> {
        let mut flags = AddressFlags::empty();
        flags.set(AddressFlags::Nodad, self.nodad && self.network.addr().is_ipv6());
        flags.set(AddressFlags::Noprefixroute, self.noprefixroute);
        let mut options = vec![AddressAttribute::Flags(flags)];
        if self.protocol != 0 {
            options.push(AddressAttribute::Protocol(self.protocol.into()));
        }
        if self.deprecated {
            let mut lifetimes = CacheInfo::default();
            lifetimes.ifa_valid = FOREVER;
            options.push(AddressAttribute::CacheInfo(lifetimes));
        }
        if let (IpNet::V4(network), None) = (self.network, self.peer)
            && network.prefix_len() < 31
        {
            // Without it the kernel would not know the prefix's broadcast address as one.
            options.push(AddressAttribute::Broadcast(network.broadcast()));
        }
        options
    }
}

impl Netlink {
    /// The addresses of a link, in the order the kernel prefers them as sources.
    pub fn addresses(&self, index: u32) -> Result<Vec<Address>, NetlinkError> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.dump(&request).map_err(|refusal| refusal.of(format!("list the addresses of link {index}")))?;
        let read = |answer| match answer {
            RouteNetlinkMessage::NewAddress(message) if message.header.index == index => Address::read(&message),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(read).collect())
    }

    /// Gives a link an address, or changes the flags of one that it has.
    pub fn add_address(&self, index: u32, address: &Address) -> Result<(), NetlinkError> {
        let mut message = address.message(index);
        message.attributes.extend(address.options());
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.of(format!("add the address {} to link {index}", address.network)))
    }

    /// Takes an address away from a link.
    pub fn delete_address(&self, index: u32, address: &Address) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelAddress(address.message(index)), 0)
            .map_err(|refusal| refusal.of(format!("delete the address {} from link {index}", address.network)))
    }
}
