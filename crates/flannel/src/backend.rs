//! Making leases true: by documents of HNS, or by the kernel's own devices and routes.
//!
//! A backend first prepares what this node needs by itself, and then the ways to the others. Both look at what is there and change
//! what differs.

pub mod hns;
pub mod kernel;
pub mod router;

use std::net::IpAddr;

use ipnet::IpNet;

use crate::desired::Own;
use crate::interface::Interface;
use crate::lease::{Lease, Vtep};
use crate::trouble::Trouble;

/// Where this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The interface to other nodes.
    pub interface: Interface,
    /// Whether somebody has chosen it.
    pub is_chosen: bool,
    /// The networks of all pods.
    pub networks: Vec<IpNet>,
    /// Whether tunnels go over IPv4.
    pub v4_underlay: bool,
    /// Whether what leaves the pods' network gets the node's address.
    pub ip_masq: bool,
}

impl Site {
    /// The node's own address that tunnels come from.
    pub fn tunnel_address(&self) -> Option<IpAddr> {
        self.interface.address_like(self.v4_underlay)
    }
}

/// What there is for pods and peers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// This node's end of the tunnels, if there are any.
    pub vtep: Option<Vtep>,
    /// The largest packet that pods may send.
    pub mtu: u32,
}

/// A way to make leases true.
pub trait Backend: Send {
    /// The name under which nodes tell each other of it.
    fn kind(&self) -> &'static str;

    /// The virtual network, if it has one.
    fn vni(&self) -> Option<u32>;

    /// Makes what this node needs by itself.
    fn prepare(&mut self, own: &Own, site: &Site) -> Result<Prepared, Trouble>;

    /// Makes the ways to all others, and removes those to nobody. What fails for one does not keep it from the others.
    fn apply(&mut self, own: &Own, site: &Site, peers: &[Lease]) -> Vec<Trouble>;
}

/// How much smaller packets are that go through a tunnel.
fn vxlan_overhead(v4_underlay: bool) -> u32 {
    if v4_underlay { 50 } else { 70 }
}
