//! The NIC of a pod as its namespace sees it: name, MAC, addresses, routes, neighbours.
//!
//! Configuring compares first and changes only what differs, so that doing it again, as after a restart of the switch, disturbs no
//! connection. What somebody else has added in the namespace stays: what is ours is marked with [`netlink::PROTOCOL`].

use std::fmt;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use wire::MacAddress;

use crate::netlink::{self, Address, Hop, Link, Netlink, NetlinkError};
use crate::sysctl::{Family, Key};

/// What a vNIC should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VnicConfig {
    /// The link's name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its MTU.
    pub mtu: u32,
    /// The largest segment that may be handed to it; none leaves the kernel's choice.
    pub gso_max_size: Option<u32>,
    /// Its addresses with their prefixes.
    pub addresses: Vec<IpNet>,
    /// Its routes, besides those to its prefixes.
    pub routes: Vec<Route>,
    /// Neighbours that it need not ask for.
    pub neighbours: Vec<(IpAddr, MacAddress)>,
    /// Its alias; none leaves what is there.
    pub alias: Option<String>,
}

/// A route of a vNIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// The router; none if the destination is on the link. It need not be in one of the link's prefixes.
    pub next_hop: Option<IpAddr>,
    /// The lower, the sooner it is taken; 0 leaves the choice to the kernel.
    pub metric: u32,
}

/// Why a vNIC could not be configured.
#[derive(Debug)]
pub enum VnicError {
    /// There is no link of this number.
    Gone(u32),
    /// The kernel refused a change.
    Netlink(NetlinkError),
    /// A setting could not be made.
    Setting(io::Error),
}

impl fmt::Display for VnicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(index) => write!(f, "link {index} is gone; attach the endpoint again"),
            Self::Netlink(error) => error.fmt(f),
            Self::Setting(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for VnicError {}

impl From<NetlinkError> for VnicError {
    fn from(error: NetlinkError) -> Self {
        Self::Netlink(error)
    }
}

/// Makes a link what `config` says, and sets it up.
pub fn configure(netlink: &Netlink, index: u32, config: &VnicConfig) -> Result<(), VnicError> {
    let link = netlink.link_by_index(index)?.ok_or(VnicError::Gone(index))?;
    shape(netlink, &link, config)?;
    // A link that is up has its settings since it was set up.
    if !link.up {
        apply_settings(netlink, config)?;
    }
    follow_addresses(netlink, index, &config.addresses)?;
    // The kernel takes neither routes nor IPv6 neighbours for a link that is down.
    if !link.up {
        netlink.set_up(index)?;
    }
    follow_routes(netlink, index, config)?;
    follow_neighbours(netlink, index, &config.neighbours)?;
    Ok(())
}

fn shape(netlink: &Netlink, link: &Link, config: &VnicConfig) -> Result<(), NetlinkError> {
    if link.name != config.name {
        netlink.set_name(link.index, &config.name)?;
    }
    if link.mac != config.mac {
        netlink.set_mac(link.index, config.mac)?;
    }
    if link.mtu != config.mtu {
        netlink.set_mtu(link.index, config.mtu)?;
    }
    if let Some(size) = config.gso_max_size.filter(|size| link.gso_max_size != Some(*size)) {
        netlink.set_gso_max_size(link.index, size)?;
    }
    if let Some(alias) = config.alias.as_deref().filter(|alias| link.alias.as_deref() != Some(alias)) {
        netlink.set_alias(link.index, alias)?;
    }
    Ok(())
}

/// Settings of the link, all on one thread of its namespace.
fn apply_settings(netlink: &Netlink, config: &VnicConfig) -> Result<(), VnicError> {
    let settings = || quiet_ipv6(&config.name).and_then(|()| honest_arp(&config.name));
    netlink.within(settings).and_then(|result| result).map_err(VnicError::Setting)
}

/// Keeps the link from asking routers and from doubting its addresses: the switch has decided both. And its address of the link is the
/// one that follows from its hardware address, which is the one that the switch believes it.
fn quiet_ipv6(link: &str) -> io::Result<()> {
    let mut keys = ["accept_dad", "accept_ra", "router_solicitations", "addr_gen_mode"].into_iter();
    match keys.try_for_each(|key| Key::interface(Family::V6, link, key).set("0").map(|_| ())) {
        // A kernel without IPv6 has nothing to keep quiet, and is found out by the first IPv6 address.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Lets requests for neighbours bear an address of the link itself. By default they bear the source of the packet that waits, which may be
/// a virtual address that is not the NIC's, and the switch takes that for a lie.
fn honest_arp(link: &str) -> io::Result<()> {
    Key::interface(Family::V4, link, "arp_announce").set("2").map(drop)
}

fn follow_addresses(netlink: &Netlink, index: u32, wanted: &[IpNet]) -> Result<(), NetlinkError> {
    let present = netlink.addresses(index)?;
    let stale = present.iter().filter(|address| address.protocol == netlink::PROTOCOL && !wanted.contains(&address.network));
    stale.into_iter().try_for_each(|address| netlink.delete_address(index, address))?;
    let is_missing = |network: &&IpNet| !present.iter().any(|address| address.network == **network && !address.tentative);
    wanted.iter().filter(is_missing).try_for_each(|network| netlink.add_address(index, &Address::new(*network)))
}

fn follow_routes(netlink: &Netlink, index: u32, config: &VnicConfig) -> Result<(), NetlinkError> {
    let mut wanted: Vec<netlink::Route> = config.routes.iter().map(|route| resolved(route, index, &config.addresses)).collect();
    // A router that is reached by another route can be named only when that one is there.
    wanted.sort_by_key(|route| route.hops.iter().any(|hop| hop.gateway.is_some()));
    let present = netlink.routes(index)?;
    let stale = present.iter().filter(|route| route.protocol == netlink::PROTOCOL && !wanted.contains(route));
    stale.into_iter().try_for_each(|route| netlink.delete_route(route))?;
    wanted.iter().filter(|route| !present.contains(route)).try_for_each(|route| netlink.prepend_route(route))
}

fn resolved(route: &Route, index: u32, addresses: &[IpNet]) -> netlink::Route {
    let in_prefix = |hop: &IpAddr| addresses.iter().any(|prefix| prefix.contains(hop));
    let link_local = |hop: &IpAddr| matches!(hop, IpAddr::V6(hop) if hop.is_unicast_link_local());
    let onlink = route.next_hop.is_some_and(|hop| !in_prefix(&hop) && !link_local(&hop));
    let hop = Hop { index, gateway: route.next_hop, onlink, weight: 0 };
    netlink::Route::new(route.destination, hop, route.metric)
}

fn follow_neighbours(netlink: &Netlink, index: u32, wanted: &[(IpAddr, MacAddress)]) -> Result<(), NetlinkError> {
    let present = netlink.neighbours(index)?;
    let ours = present.iter().filter(|neighbour| neighbour.permanent && neighbour.protocol == netlink::PROTOCOL);
    let stale = ours.filter(|neighbour| !wanted.iter().any(|(address, _)| *address == neighbour.address));
    stale.into_iter().try_for_each(|neighbour| netlink.delete_neighbour(index, neighbour.address))?;
    let is_missing = |(address, mac): &&(IpAddr, MacAddress)| {
        !present.iter().any(|neighbour| neighbour.permanent && neighbour.address == *address && neighbour.mac == Some(*mac))
    };
    wanted.iter().filter(is_missing).try_for_each(|(address, mac)| netlink.set_neighbour(index, *address, *mac))
}
