//! Forwarding entries of a VXLAN link: behind which node a hardware address is.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use wire::MacAddress;

use super::{Netlink, NetlinkError};

/// A hardware address and the node it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The hardware address.
    pub mac: MacAddress,
    /// The node.
    pub remote: IpAddr,
}

impl Forwarding {
    fn read(message: &NeighbourMessage) -> Option<Self> {
        let (mut mac, mut remote) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::LinkLayerAddress(bytes) => mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(MacAddress),
                NeighbourAttribute::Destination(address) => remote = ip(address),
                _ => {}
            }
        }
        Some(Self { mac: mac?, remote: remote? })
    }

    fn message(&self, index: u32) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.flags = NeighbourFlags::Own;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(self.mac.0.to_vec()));
        message.attributes.push(NeighbourAttribute::Destination(self.remote.into()));
        message
    }
}

/// Entries are of no family of IP, so that the address comes as bytes.
fn ip(address: &NeighbourAddress) -> Option<IpAddr> {
    match address {
        NeighbourAddress::Inet(address) => Some(IpAddr::V4(*address)),
        NeighbourAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        NeighbourAddress::Other(bytes) => {
            let v4 = <[u8; 4]>::try_from(bytes.as_slice()).ok().map(IpAddr::from);
            v4.or_else(|| <[u8; 16]>::try_from(bytes.as_slice()).ok().map(IpAddr::from))
        }
        _ => None,
    }
}

impl Netlink {
    /// The forwarding entries of a link that lead to a node.
    pub fn forwardings(&self, index: u32) -> Result<Vec<Forwarding>, NetlinkError> {
        let mut request = NeighbourMessage::default();
        request.header.family = AddressFamily::Bridge;
        request.header.ifindex = index;
        let request = RouteNetlinkMessage::GetNeighbour(request);
        let answers = self.dump(&request).map_err(|refusal| refusal.of(format!("list the forwarding entries of link {index}")))?;
        let read = |answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) if message.header.ifindex == index => Forwarding::read(&message),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(read).collect())
    }

    /// Says behind which node a hardware address is, instead of what was said before.
    pub fn set_forwarding(&self, index: u32, entry: &Forwarding) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::NewNeighbour(entry.message(index)), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.of(format!("set the way to {} by {} on link {index}", entry.mac, entry.remote)))
    }

    /// Forgets it.
    pub fn delete_forwarding(&self, index: u32, entry: &Forwarding) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelNeighbour(entry.message(index)), 0)
            .map_err(|refusal| refusal.of(format!("delete the way to {} by {} from link {index}", entry.mac, entry.remote)))
    }
}
