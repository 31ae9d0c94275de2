//! Neighbours: which Ethernet address an IP address on a link has.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteProtocol, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use wire::MacAddress;

use super::{Netlink, NetlinkError};

/// What the kernel knows of a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The link it is on.
    pub index: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address, where that is known.
    pub mac: Option<MacAddress>,
    /// It was set and is never asked for.
    pub permanent: bool,
    /// It was asked for and did not answer.
    pub failed: bool,
    /// Who made it: [`super::PROTOCOL`] if we did, zero where nobody said.
    pub protocol: u8,
}

impl Neighbour {
    pub(super) fn read(message: NeighbourMessage) -> Option<Self> {
        let (mut address, mut mac, mut protocol) = (None, None, 0);
        for attribute in message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => address = Some(IpAddr::V4(ip)),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => address = Some(IpAddr::V6(ip)),
                NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.try_into().map(MacAddress).ok(),
                NeighbourAttribute::Protocol(number) => protocol = u8::from(number),
                _ => {}
            }
        }
        let state = message.header.state;
        Some(Self {
            index: message.header.ifindex,
            address: address?,
            mac,
            permanent: state == NeighbourState::Permanent,
            failed: state == NeighbourState::Failed,
            protocol,
        })
    }
}

impl Netlink {
    /// The neighbours on a link.
    pub fn neighbours(&self, index: u32) -> Result<Vec<Neighbour>, NetlinkError> {
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.dump(&request).map_err(|refusal| refusal.of(format!("list the neighbours on link {index}")))?;
        let read = |answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) if message.header.ifindex == index => Neighbour::read(message),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(read).collect())
    }

    /// The neighbours that have one of these addresses, on whatever link.
    pub fn neighbours_at(&self, addresses: &[IpAddr]) -> Result<Vec<Neighbour>, NetlinkError> {
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.dump(&request).map_err(|refusal| refusal.of("list the neighbours".to_owned()))?;
        let read = |answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) => Neighbour::read(message),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(read).filter(|neighbour| addresses.contains(&neighbour.address)).collect())
    }

    /// Tells the kernel a neighbour's Ethernet address, for good.
    pub fn set_neighbour(&self, index: u32, address: IpAddr, mac: MacAddress) -> Result<(), NetlinkError> {
        let mut message = about(index, address);
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
        message.attributes.push(NeighbourAttribute::Protocol(RouteProtocol::from(super::PROTOCOL)));
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.of(format!("set the neighbour {address} on link {index}")))
    }

    /// Makes the kernel forget a neighbour.
    pub fn delete_neighbour(&self, index: u32, address: IpAddr) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelNeighbour(about(index, address)), 0)
            .map_err(|refusal| refusal.of(format!("delete the neighbour {address} from link {index}")))
    }

    /// Makes the kernel ask a neighbour for its Ethernet address, as if there were a packet for it. The answer comes later, in
    /// [`neighbours`](Self::neighbours) and to a [`Monitor`](super::Monitor).
    pub fn resolve(&self, index: u32, address: IpAddr) -> Result<(), NetlinkError> {
        let mut message = about(index, address);
        message.header.flags = NeighbourFlags::Use;
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.of(format!("resolve the neighbour {address} on link {index}")))
    }
}

fn about(index: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    let (family, address) = match address {
        IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    message.header.family = family;
    message.header.ifindex = index;
    message.attributes.push(NeighbourAttribute::Destination(address));
    message
}
