//! The world of a test: an underlay with a router, somebody outside, and nodes.
//!
//! ```text
//!  node 1          node 2              outside
//!  192.168.0.1     192.168.0.2         203.0.113.9
//!  fd00:99::1      fd00:99::2          fd00:203::9
//!     │ eth0          │ eth0              │ eth0
//!     │ node1         │ node2             │ far
//!  ┌──┴───────────────┴──┐                │
//!  │  bridge br0         ├── the router ──┘
//!  └─────────────────────┘
//!     192.168.0.254, fd00:99::fe       203.0.113.1, fd00:203::1
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::thread;

use host::sysctl::{Family, Key};

use super::{Node, Place, serve};

/// Where the places other than pods have their names.
const DIRECTORY: &str = "/run/places";

/// The router, from inside.
pub(crate) const ROUTER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 168, 0, 254)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 0xfe))];

/// Somebody outside.
pub(crate) const OUTSIDE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x203, 0, 0, 0, 0, 0, 9))];

/// Namespaces, the links between them, and the daemons on the nodes.
pub(crate) struct World {
    pub(crate) underlay: Place,
    pub(crate) outside: Place,
    pub(crate) nodes: Vec<Node>,
}

impl World {
    /// A world with so many nodes, on which both daemons run.
    pub(crate) fn new(nodes: usize) -> Self {
        let mut world = Self::bare(nodes);
        for node in &mut world.nodes {
            node.start_vswitchd();
            node.start_hnsd(&[]);
        }
        world
    }

    /// A world with so many nodes, on which nothing runs yet.
    pub(crate) fn bare(nodes: usize) -> Self {
        let directory = Path::new(DIRECTORY);
        let underlay = Place::make(directory, "underlay");
        let outside = Place::make(directory, "outside");
        underlay.ip("link add br0 type bridge");
        underlay.ip("link set br0 up");
        underlay.run(|| {
            Key::global("ipv4.ip_forward").write("1").expect("the router routes");
            Key::interface(Family::V6, "all", "forwarding").write("1").expect("the router routes");
        });
        give(&underlay, "br0", &["192.168.0.254/24", "fd00:99::fe/64"]);
        connect(&underlay, "far", &outside);
        give(&underlay, "far", &["203.0.113.1/24", "fd00:203::1/64"]);
        give(&outside, "eth0", &["203.0.113.9/24", "fd00:203::9/64"]);
        default_routes(&outside, ["203.0.113.1", "fd00:203::1"]);
        let mut world = Self { underlay, outside, nodes: Vec::new() };
        (1..=nodes).for_each(|number| world.add_node(number));
        [&world.underlay, &world.outside].into_iter().for_each(serve::start);
        world
    }

    fn add_node(&mut self, number: usize) {
        let node = Node::new(Place::make(Path::new(DIRECTORY), &format!("node{number}")), number);
        connect_to_bridge(&self.underlay, &node);
        equip(&node);
        serve::start(&node);
        self.nodes.push(node);
    }

    /// The first node.
    pub(crate) fn one(&self) -> &Node {
        &self.nodes[0]
    }

    /// The second node.
    pub(crate) fn two(&self) -> &Node {
        &self.nodes[1]
    }

    /// Makes the underlay narrower towards the outside: packets of more bytes than this are answered with errors.
    pub(crate) fn narrow(&self, mtu: u16) {
        self.underlay.ip(&format!("route add 203.0.113.9/32 dev far mtu lock {mtu}"));
        self.underlay.ip(&format!("-6 route add fd00:203::9/128 dev far mtu lock {mtu}"));
    }

    /// Lets the underlay know that prefixes are behind a node.
    pub(crate) fn route_to(&self, node: &Node, prefixes: &[&str]) {
        for prefix in prefixes {
            let via = node.address_like(prefix.contains('.'));
            self.underlay.ip(&format!("route add {prefix} via {via}"));
            for other in self.nodes.iter().filter(|other| other.number != node.number) {
                other.ip(&format!("route add {prefix} via {via}"));
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            self.nodes.iter().for_each(Node::describe);
        }
    }
}

/// A cable from a place to another one's `eth0`.
fn connect(here: &Place, name: &str, there: &Place) {
    here.netlink().create_veth(name, "peer0").expect("a cable");
    let peer = here.link("peer0").index;
    here.netlink().move_to(peer, &there.namespace).expect("the cable's other end");
    there.ip("link set peer0 name eth0");
    here.ip(&format!("link set {name} up"));
    there.ip("link set eth0 up");
}

/// A cable from the bridge to a node's `eth0`.
pub(crate) fn connect_to_bridge(underlay: &Place, node: &Place) {
    connect(underlay, &node.name, node);
    underlay.ip(&format!("link set {} master br0", node.name));
}

/// Gives a node's `eth0` its addresses and routes.
pub(crate) fn equip(node: &Node) {
    let number = node.number;
    give(node, "eth0", &[&format!("192.168.0.{number}/24"), &format!("fd00:99::{number}/64")]);
    default_routes(node, ["192.168.0.254", "fd00:99::fe"]);
}

fn give(place: &Place, link: &str, addresses: &[&str]) {
    for address in addresses {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        place.ip(&format!("addr add {address} dev {link}{nodad}"));
    }
}

fn default_routes(place: &Place, gateways: [&str; 2]) {
    gateways.iter().for_each(|gateway| _ = place.ip(&format!("route add default via {gateway}")));
}
