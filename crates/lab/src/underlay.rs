//! What nodes are connected by.
//!
//! ```text
//!   linux1          win1            win2              outside
//!     │ eth0          │ eth0          │ eth0             │ eth0
//!  ┌──┴───────────────┴───────────────┴──┐               │
//!  │  bridge `nodes`                     ├── the router ─┘ `far`
//!  └─────────────────────────────────────┘
//! ```
//!
//! The router is the namespace of the supervisor itself. Where nodes are machines of a cloud, the cables lead to its fabric instead, and from
//! there one leads to the bridge.

use std::io;
use std::path::{Path, PathBuf};

use host::namespace::{self, Namespace};
use host::netlink::{Address, Hop, Netlink, NetlinkError, Route};
use host::sysctl::{Family, Key};
use ipnet::IpNet;

use crate::topology::{Mode, Os, Topology, Way};

/// Where the namespaces of hosts have their names.
pub const NAMESPACES: &str = "/run/lab/net";

/// The bridge that nodes are on.
pub(crate) const BRIDGE: &str = "nodes";

/// The fabric's end of the cable to the router, in a lab that has a fabric; the other end is on the bridge.
pub(crate) const FABRIC: &str = "fabric";

/// The router's table of routes to Services, for those whose nodes have none.
const SERVICES: u32 = 84;

/// The router's end of the cable to the outside.
const FAR: &str = "far";

/// Why there is no underlay.
#[derive(Debug)]
pub enum UnderlayError {
    /// A namespace could not be made or entered.
    Namespace(io::Error),
    /// A link, an address or a route could not be made.
    Netlink(NetlinkError),
}

impl std::fmt::Display for UnderlayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace(error) => error.fmt(f),
            Self::Netlink(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnderlayError {}

impl From<io::Error> for UnderlayError {
    fn from(error: io::Error) -> Self {
        Self::Namespace(error)
    }
}

impl From<NetlinkError> for UnderlayError {
    fn from(error: NetlinkError) -> Self {
        Self::Netlink(error)
    }
}

type Result<T> = std::result::Result<T, UnderlayError>;

/// A host on the underlay: a network namespace with an `eth0`.
#[derive(Debug)]
pub struct Host {
    /// Its namespace.
    pub namespace: Namespace,
    /// The file by which others can enter it.
    pub path: PathBuf,
}

/// The router, and the host outside.
pub struct Underlay {
    router: Namespace,
    mtu: u32,
    has_fabric: bool,
    outside: Host,
}

impl Underlay {
    /// Makes the router and the host outside.
    pub fn make(topology: &Topology) -> Result<Self> {
        let netlink = Netlink::open()?;
        prepare(true)?;
        up(&netlink, "lo")?;
        netlink.create_bridge(BRIDGE)?;
        give(&netlink, BRIDGE, &topology.router())?;
        give(&netlink, BRIDGE, &topology.wire_subnets().into_iter().map(Topology::gateway_of).collect::<Vec<_>>())?;
        let outside = make_host("outside", false)?;
        let has_fabric = topology.has_mode(Mode::L2tunnel);
        let underlay = Self { router: namespace::current()?, mtu: topology.underlay.mtu, has_fabric, outside };
        underlay.connect(FAR, &underlay.outside)?;
        give(&netlink, FAR, &topology.far_router())?;
        if has_fabric {
            underlay.connect_fabric(&netlink)?;
        }
        equip(&underlay.outside, &topology.outside(), &topology.far_router(), &seen_from_outside(topology))?;
        Ok(underlay)
    }

    /// The host outside.
    pub fn outside(&self) -> &Host {
        &self.outside
    }

    /// Makes a node and connects it. Names of links are short, so they are made of its position.
    pub fn add_node(&self, topology: &Topology, position: usize) -> Result<Host> {
        let node = &topology.nodes[position];
        // On Windows it is the switch that sends packets on, and not the node.
        let host = make_host(&node.name, node.os == Os::Linux)?;
        let cable = cable(position);
        self.connect(&cable, &host)?;
        let netlink = Netlink::open_in(&self.router)?;
        match self.has_fabric {
            // The fabric answers there, and nobody else may.
            true => self.router.run(|| Key::interface(Family::V4, &cable, "arp_ignore").write("1"))??,
            false => netlink.set_controller(index(&netlink, &cable)?, index(&netlink, BRIDGE)?)?,
        }
        equip(&host, &topology.node_addresses(position), &topology.router(), &[default_v4(), default_v6()])?;
        Ok(host)
    }

    /// A cable from the router's bridge to the fabric that nodes are on.
    fn connect_fabric(&self, netlink: &Netlink) -> Result<()> {
        let inner = format!("{FABRIC}p");
        netlink.create_veth(FABRIC, &inner)?;
        for link in [FABRIC, &inner] {
            netlink.set_mtu(index(netlink, link)?, self.mtu)?;
            up(netlink, link)?;
        }
        Key::interface(Family::V4, FABRIC, "arp_ignore").write("1")?;
        Ok(netlink.set_controller(index(netlink, &inner)?, index(netlink, BRIDGE)?)?)
    }

    /// A cable from the router to a host's `eth0`.
    fn connect(&self, name: &str, host: &Host) -> Result<()> {
        let peer = format!("{name}p");
        let router = Netlink::open_in(&self.router)?;
        router.create_veth(name, &peer)?;
        let (here, there) = (index(&router, name)?, index(&router, &peer)?);
        router.set_mtu(here, self.mtu)?;
        router.set_mtu(there, self.mtu)?;
        router.move_to(there, &host.namespace)?;
        let netlink = Netlink::open_in(&host.namespace)?;
        netlink.set_name(index(&netlink, &peer)?, "eth0")?;
        up(&router, name)?;
        up(&netlink, "eth0")
    }

    /// Leads packets to where the topology says.
    pub fn lead(&self, topology: &Topology) -> Result<()> {
        let netlink = Netlink::open_in(&self.router)?;
        for way in topology.ways() {
            lead(&netlink, topology, &way, None)?;
        }
        let sources = topology.without_services();
        if sources.is_empty() {
            return Ok(());
        }
        for way in topology.ways_to_services() {
            lead(&netlink, topology, &way, Some(SERVICES))?;
        }
        sources.iter().try_for_each(|source| Ok(netlink.add_source_rule(*source, SERVICES)?))
    }
}

/// Leads packets for a range to nodes, to each a part of the connections: in a table for some, or for everybody.
fn lead(netlink: &Netlink, topology: &Topology, way: &Way, table: Option<u32>) -> Result<()> {
    let index = index(netlink, BRIDGE)?;
    let of_family = |position: &usize| {
        let addresses = topology.node_addresses(*position);
        addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == way.range.addr().is_ipv4())
    };
    let hop = |gateway| Hop { gateway: Some(gateway), index, ..Hop::default() };
    let mut hops = way.nodes.iter().filter_map(of_family).map(hop);
    let Some(first) = hops.next() else { return Ok(()) };
    let mut route = Route::new(way.range, first, 0);
    route.hops.extend(hops);
    route.table = table.unwrap_or(route.table);
    Ok(netlink.replace_route(&route)?)
}

fn make_host(name: &str, routes: bool) -> Result<Host> {
    let namespace = namespace::create(Path::new(NAMESPACES), name)?;
    namespace.run(|| prepare(routes))??;
    up(&Netlink::open_in(&namespace)?, "lo")?;
    let path = Path::new(NAMESPACES).join(name);
    Ok(Host { namespace, path })
}

/// Sets the namespace of this thread so that addresses work at once, and packets are sent on if wanted.
fn prepare(routes: bool) -> io::Result<()> {
    let v6 = |interface: &str, name: &str, value: &str| Key::interface(Family::V6, interface, name).write(value);
    v6("default", "accept_dad", "0")?;
    v6("default", "router_solicitations", "0")?;
    if routes {
        v6("all", "forwarding", "1")?;
        Key::global("ipv4.ip_forward").write("1")?;
        // Two nodes are on one link, and what the router sends back to it is meant to go by the router.
        for interface in ["all", "default"] {
            Key::interface(Family::V4, interface, "send_redirects").write("0")?;
        }
        // Several ways to one destination are told apart by connection, not by host.
        Key::global("ipv4.fib_multipath_hash_policy").write("1")?;
    }
    Ok(())
}

/// Gives a host its addresses, and routes to what it knows of.
fn equip(host: &Host, addresses: &[IpNet], gateways: &[IpNet], known: &[IpNet]) -> Result<()> {
    let netlink = Netlink::open_in(&host.namespace)?;
    give(&netlink, "eth0", addresses)?;
    let index = index(&netlink, "eth0")?;
    for range in known {
        let Some(gateway) = gateways.iter().map(IpNet::addr).find(|gateway| gateway.is_ipv4() == range.addr().is_ipv4()) else { continue };
        netlink.replace_route(&Route::new(*range, Hop { gateway: Some(gateway), index, ..Hop::default() }, 0))?;
    }
    Ok(())
}

/// What somebody outside has a route to: nodes, Services' addresses there, and pods that are on the wire as they are. Those of other modes
/// have private addresses, also where the router between the nodes knows them.
fn seen_from_outside(topology: &Topology) -> Vec<IpNet> {
    let mut known = topology.underlay.subnets.clone();
    known.push(topology.cluster.load_balancer_subnet);
    known.extend(topology.wire_subnets());
    known
}

fn default_v4() -> IpNet {
    ipnet::Ipv4Net::default().into()
}

fn default_v6() -> IpNet {
    ipnet::Ipv6Net::default().into()
}

fn give(netlink: &Netlink, link: &str, addresses: &[IpNet]) -> Result<()> {
    let index = index(netlink, link)?;
    for address in addresses {
        netlink.add_address(index, &Address::new(*address))?;
    }
    up(netlink, link)
}

fn up(netlink: &Netlink, link: &str) -> Result<()> {
    Ok(netlink.set_up(index(netlink, link)?)?)
}

/// The router's end of the cable to the node at a position.
pub(crate) fn cable(position: usize) -> String {
    format!("node{position}")
}

/// The number of a link.
pub(crate) fn index(netlink: &Netlink, name: &str) -> Result<u32> {
    let link = netlink.link_by_name(name)?;
    link.map(|link| link.index).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no link {name}")).into())
}
