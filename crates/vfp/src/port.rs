//! Ports of the switch.

use std::fmt;

use wire::{Ip, MacAddress};

use crate::domain::DomainId;
use crate::layer::ProgramSpec;

/// A port, by its number. Numbers are given by the switch and used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Seen from the NIC of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The NIC sends into the switch.
    Out,
    /// The switch sends to the NIC.
    In,
}

impl Direction {
    /// The name as HCN documents spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Out => "Out",
            Self::In => "In",
        }
    }
}

/// What is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A NIC of an endpoint, or of the node itself.
    Nic,
    /// The node's adapter, with other machines behind it.
    Uplink,
    /// A tunnel over the underlay: frames come and go with their encapsulation beside them.
    Tunnel,
}

impl PortKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Uplink => "uplink",
            Self::Tunnel => "tunnel",
        }
    }
}

/// A port as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// What it is known by.
    pub name: String,
    /// What is behind it.
    pub kind: PortKind,
    /// The address of its NIC.
    pub mac: MacAddress,
    /// The IP addresses of its NIC.
    pub addresses: Vec<Ip>,
    /// What its NIC sends is forwarded by the rules of this domain.
    pub domain: DomainId,
    /// The largest IP packet that may go to its NIC.
    pub mtu: u16,
    /// The address that stands for the NIC's own where its frames leave by an uplink.
    pub hidden_behind: Option<MacAddress>,
    /// Whether what comes from the NIC may go back to it.
    pub hairpin: bool,
    /// Whether the NIC is held to be no router: what it says in a router's name is dropped.
    pub router_guard: bool,
    /// What it filters.
    pub program: ProgramSpec,
}
