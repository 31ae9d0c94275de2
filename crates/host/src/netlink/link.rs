//! Links: the network interfaces of a namespace.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind, InfoVeth, InfoVxlan,
    LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
};
use wire::MacAddress;

use super::{Netlink, NetlinkError};
use crate::namespace::Namespace;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name, such as `eth0`.
    pub name: String,
    /// What somebody calls it, in any words.
    pub alias: Option<String>,
    /// Its Ethernet address; zeros if it has none.
    pub mac: MacAddress,
    /// The largest packet it takes.
    pub mtu: u32,
    /// Whether it was set up.
    pub up: bool,
    /// Whether it can carry packets: it is up and has a carrier.
    pub running: bool,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// What kind of virtual device it is, such as `veth`; none for hardware.
    pub kind: Option<String>,
    /// The largest segment it takes to cut up itself.
    pub gso_max_size: Option<u32>,
    /// The same for IPv4, where the kernel tells them apart.
    pub gso_ipv4_max_size: Option<u32>,
    /// The bridge or the like that it is a port of.
    pub controller: Option<u32>,
    /// Whether the kernel makes IPv6 addresses for it by itself.
    pub makes_addresses: bool,
    /// How its tunnels are, if it is an end of some.
    pub vxlan: Option<Vxlan>,
}

/// How the tunnels of a VXLAN link are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// The virtual network.
    pub vni: u32,
    /// The UDP port.
    pub port: u16,
    /// The address they come from.
    pub local: Option<IpAddr>,
    /// The link they go by.
    pub parent: u32,
}

impl Vxlan {
    fn read(infos: &[InfoVxlan]) -> Self {
        let mut vxlan = Self { vni: 0, port: 0, local: None, parent: 0 };
        for info in infos {
            match info {
                InfoVxlan::Id(vni) => vxlan.vni = *vni,
                InfoVxlan::Port(port) => vxlan.port = *port,
                InfoVxlan::Local(address) => vxlan.local = Some(IpAddr::V4(*address)),
                InfoVxlan::Local6(address) => vxlan.local = Some(IpAddr::V6(*address)),
                InfoVxlan::Link(index) => vxlan.parent = *index,
                _ => {}
            }
        }
        vxlan
    }

    /// Without learning: who is where is told, and nothing else believed.
    fn write(&self) -> Vec<InfoVxlan> {
        let mut infos = vec![InfoVxlan::Id(self.vni), InfoVxlan::Link(self.parent), InfoVxlan::Learning(false), InfoVxlan::Port(self.port)];
        infos.extend(self.local.map(|local| match local {
            IpAddr::V4(address) => InfoVxlan::Local(address),
            IpAddr::V6(address) => InfoVxlan::Local6(address),
        }));
        infos
    }
}

impl Link {
    pub(super) fn read(message: LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            running: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
            loopback: flags.contains(LinkFlags::Loopback),
            makes_addresses: true,
            ..Self::default()
        };
        message.attributes.into_iter().for_each(|attribute| link.note(attribute));
        link
    }

    fn note(&mut self, attribute: LinkAttribute) {
        match attribute {
            LinkAttribute::IfName(name) => self.name = name,
            LinkAttribute::IfAlias(alias) => self.alias = Some(alias).filter(|alias| !alias.is_empty()),
            LinkAttribute::Address(bytes) => self.mac = bytes.try_into().map(MacAddress).unwrap_or_default(),
            LinkAttribute::Mtu(mtu) => self.mtu = mtu,
            LinkAttribute::GsoMaxSize(size) => self.gso_max_size = Some(size),
            LinkAttribute::GsoIpv4MaxSize(size) => self.gso_ipv4_max_size = Some(size),
            LinkAttribute::Controller(index) => self.controller = Some(index),
            LinkAttribute::LinkInfo(infos) => {
                self.kind = infos.iter().find_map(kind);
                self.vxlan = infos.iter().find_map(vxlan);
            }
            LinkAttribute::AfSpecUnspec(families) => self.makes_addresses = !families.iter().any(makes_none),
            _ => {}
        }
    }
}

fn kind(info: &LinkInfo) -> Option<String> {
    if let LinkInfo::Kind(kind) = info { Some(kind.to_string()) } else { None }
}

fn vxlan(info: &LinkInfo) -> Option<Vxlan> {
    if let LinkInfo::Data(InfoData::Vxlan(infos)) = info { Some(Vxlan::read(infos)) } else { None }
}

fn makes_none(family: &AfSpecUnspec) -> bool {
    matches!(family, AfSpecUnspec::Inet6(values) if values.contains(&AfSpecInet6::AddrGenMode(In6AddrGenMode::None)))
}

impl Netlink {
    /// All links.
    pub fn links(&self) -> Result<Vec<Link>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let answers = self.dump(&RouteNetlinkMessage::GetLink(request)).map_err(|refusal| refusal.of("list the links"))?;
        Ok(answers.into_iter().filter_map(read).collect())
    }

    /// The link of a name, if there is one.
    pub fn link_by_name(&self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.find_link(request, &format!("look up the link {name}"))
    }

    /// The link of a number, if there is one.
    pub fn link_by_index(&self, index: u32) -> Result<Option<Link>, NetlinkError> {
        self.find_link(about(index), &format!("look up link {index}"))
    }

    fn find_link(&self, request: LinkMessage, operation: &str) -> Result<Option<Link>, NetlinkError> {
        match self.get(RouteNetlinkMessage::GetLink(request)).map_err(|refusal| refusal.of(operation)) {
            Ok(answer) => Ok(read(answer)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a pair of links such that what one sends the other receives.
    pub fn create_veth(&self, name: &str, peer: &str) -> Result<(), NetlinkError> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.to_owned()));
        let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other)));
        self.create_link(name, vec![LinkInfo::Kind(InfoKind::Veth), data])
    }

    /// Makes a link that drops what is sent to it.
    pub fn create_dummy(&self, name: &str) -> Result<(), NetlinkError> {
        self.create_link(name, vec![LinkInfo::Kind(InfoKind::Dummy)])
    }

    /// Makes a learning bridge without ports. It keeps the Ethernet address that it begins with: one that was never set would be that of
    /// some port, and change under its neighbours as ports come and go.
    pub fn create_bridge(&self, name: &str) -> Result<(), NetlinkError> {
        self.create_link(name, vec![LinkInfo::Kind(InfoKind::Bridge)])?;
        self.link_by_name(name)?.map_or(Ok(()), |bridge| self.set_mac(bridge.index, bridge.mac))
    }

    /// Makes an end of tunnels.
    pub fn create_vxlan(&self, name: &str, vxlan: &Vxlan) -> Result<(), NetlinkError> {
        self.create_link(name, vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(vxlan.write()))])
    }

    /// Makes an end of all tunnels to a UDP port: what it pops says itself whose it is.
    pub fn create_vxlan_for_all(&self, name: &str, port: u16) -> Result<(), NetlinkError> {
        let infos = vec![
            InfoVxlan::CollectMetadata(true),
            InfoVxlan::Learning(false),
            InfoVxlan::Port(port),
            // Tunnels over IPv6 may leave the outer checksum out (RFC 6935), and many do.
            InfoVxlan::UDPZeroCsumRX(true),
        ];
        self.create_link(name, vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(infos))])
    }

    fn create_link(&self, name: &str, info: Vec<LinkInfo>) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(info)];
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| refusal.of(format!("make the link {name}")))
    }

    /// Deletes a link that was made by a program.
    pub fn delete_link(&self, index: u32) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelLink(about(index)), 0).map_err(|refusal| refusal.of(format!("delete link {index}")))
    }

    /// Lets a link carry packets.
    pub fn set_up(&self, index: u32) -> Result<(), NetlinkError> {
        self.set_flag(index, LinkFlags::Up, "set up")
    }

    /// Stops a link. Its routes go with it.
    pub fn set_down(&self, index: u32) -> Result<(), NetlinkError> {
        self.set_flag(index, LinkFlags::empty(), "set down")
    }

    fn set_flag(&self, index: u32, flags: LinkFlags, operation: &str) -> Result<(), NetlinkError> {
        let mut message = about(index);
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        self.change(RouteNetlinkMessage::SetLink(message), 0).map_err(|refusal| refusal.of(format!("{operation} link {index}")))
    }

    /// Gives a link another name. Kernels before 6.2 want it down for that.
    pub fn set_name(&self, index: u32, name: &str) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::IfName(name.to_owned()), &format!("give the name {name}"))
    }

    /// Gives a link an alias; an empty one takes it away.
    pub fn set_alias(&self, index: u32, alias: &str) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::IfAlias(alias.to_owned()), &format!("give the alias {alias:?}"))
    }

    /// Gives a link an Ethernet address.
    pub fn set_mac(&self, index: u32, mac: MacAddress) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Address(mac.0.to_vec()), &format!("give the MAC address {mac}"))
    }

    /// Sets the largest packet a link takes.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Mtu(mtu), &format!("give the MTU {mtu}"))
    }

    /// Sets the largest segment a link takes to cut up itself.
    pub fn set_gso_max_size(&self, index: u32, size: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::GsoMaxSize(size), &format!("give the largest segment {size}"))
    }

    /// Sets the largest IPv4 segment a link takes to cut up itself; from Linux 6.3 on.
    pub fn set_gso_ipv4_max_size(&self, index: u32, size: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::GsoIpv4MaxSize(size), &format!("give the largest IPv4 segment {size}"))
    }

    /// Keeps the kernel from making IPv6 addresses for a link, the link-local one included.
    pub fn make_no_addresses(&self, index: u32) -> Result<(), NetlinkError> {
        let none = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let families = vec![AfSpecUnspec::Inet6(vec![none])];
        self.set_attribute(index, LinkAttribute::AfSpecUnspec(families), "turn off address generation")
    }

    /// Makes a link a port of a bridge.
    pub fn set_controller(&self, index: u32, bridge: u32) -> Result<(), NetlinkError> {
        self.set_attribute(index, LinkAttribute::Controller(bridge), &format!("make a port of link {bridge}"))
    }

    /// Lets a port of a bridge have back what came from it, for a pod that reaches itself through its Service.
    pub fn set_hairpin(&self, index: u32) -> Result<(), NetlinkError> {
        let hairpin = InfoPortData::BridgePort(vec![InfoBridgePort::HairpinMode(true)]);
        let info = LinkAttribute::LinkInfo(vec![LinkInfo::PortKind(InfoPortKind::Bridge), LinkInfo::PortData(hairpin)]);
        let mut message = about(index);
        message.attributes.push(info);
        // Asked to set a link, the kernel passes over what is about it as a port.
        self.change(RouteNetlinkMessage::NewLink(message), 0).map_err(|refusal| refusal.of(format!("set the hairpin mode (link {index})")))
    }

    /// Moves a link to another namespace. Its number may change on the way; its name stays.
    pub fn move_to(&self, index: u32, namespace: &Namespace) -> Result<(), NetlinkError> {
        let fd = namespace.as_fd().as_raw_fd();
        self.set_attribute(index, LinkAttribute::NetNsFd(fd), &format!("move to {}", namespace.path().display()))
    }

    fn set_attribute(&self, index: u32, attribute: LinkAttribute, operation: &str) -> Result<(), NetlinkError> {
        let mut message = about(index);
        message.attributes.push(attribute);
        self.change(RouteNetlinkMessage::SetLink(message), 0).map_err(|refusal| refusal.of(format!("{operation} (link {index})")))
    }
}

fn about(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn read(answer: RouteNetlinkMessage) -> Option<Link> {
    if let RouteNetlinkMessage::NewLink(message) = answer { Some(Link::read(message)) } else { None }
}
