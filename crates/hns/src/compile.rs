//! From documents to rules: what a network and its endpoints ask of the switch.
//!
//! Documents go in with the [`Site`], which says where in the switch they are to be true; rules come out. Nothing here
//! touches a switch. Each network mode is a file under `mode`, and each policy that becomes rules is a file of its own.
//!
//! | realm | its rules forward what |
//! |---|---|
//! | wire | endpoints bridged onto an adapter, and other machines, send |
//! | host | the node itself sends |
//! | own | endpoints of this network send, where it has a forwarding domain of its own |

pub mod access;
pub mod acl;
pub mod adapter;
pub mod endpoint;
pub mod filter;
pub mod guard;
pub mod l4_proxy;
pub mod l4_wfp_proxy;
pub mod load_balancer;
pub mod mode;
pub mod namespace;
pub mod neighbor_discovery;
pub mod network;
pub mod network_acl;
pub mod outbound_nat;
pub mod port_mapping;
pub mod qos;
pub mod remote_subnet;
pub mod sdn_route;
pub mod sets;
pub mod source_mac_address;
pub mod support;
pub mod tier_acl;
pub mod vlan;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hcn::policy::Policy;
use ipnet::IpNet;
use vfp::{DomainId, LayerSpec, PoolId, PortId, RuleSpec, Stage, TableId, UnderlayId};
use wire::{Ip, MacAddress};

use crate::profile::{Defect, Limit};

/// Whose packets a rule forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Realm {
    /// Of the network itself.
    Own,
    /// Of everybody on the adapter, and beyond it.
    Wire,
    /// Of the node.
    Host,
}

/// A rule and where it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Into whose domain.
    pub realm: Realm,
    /// Into which of its groups.
    pub stage: Stage,
    /// The rule.
    pub rule: RuleSpec,
}

impl Placed {
    fn new(realm: Realm, stage: Stage, rule: RuleSpec) -> Self {
        Self { realm, stage, rule }
    }
}

/// The node's adapter, as the switch has taken it over.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterSite {
    /// The port of the adapter.
    pub uplink: PortId,
    /// The port of the node's own vNIC.
    pub host: PortId,
    /// The domain of what is bridged onto it.
    pub wire_domain: DomainId,
    /// The domain of the node.
    pub host_domain: DomainId,
    /// For what the switch itself routes.
    pub underlay: UnderlayId,
    /// Ports for translation.
    pub pool: PoolId,
    /// Services for the node itself.
    pub node_services: TableId,
    /// Services for other machines.
    pub outside_services: TableId,
    /// Its hardware address, which the node's vNIC has as well.
    pub mac: MacAddress,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Its MTU.
    pub mtu: u16,
}

/// Addresses that stand for the node's own where the node itself asks for one of its node ports, one of each family. What a node sends to its
/// own addresses never leaves it, so the node leads it to these, which only its vNIC knows.
pub const NODE_ALIASES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(169, 254, 84, 82)), IpAddr::V6(Ipv6Addr::new(0xfd74, 0x7261, 0x6e73, 0x6f6d, 0, 0, 0, 1))];

/// Where in the switch a network is to be true.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The domain of its own, if its mode has one.
    pub domain: Option<DomainId>,
    /// The adapter, if its mode has one.
    pub adapter: Option<AdapterSite>,
    /// The port of the tunnel, if its mode has one.
    pub tunnel: Option<PortId>,
    /// Services for the network's endpoints, if its mode has them.
    pub services: Option<TableId>,
    /// The node's vNIC on a switch without an adapter, with its hardware address.
    pub gateway: Option<(PortId, MacAddress)>,
    /// What the build that is emulated leaves out.
    pub limits: Vec<Limit>,
    /// What it gets wrong.
    pub defects: Vec<Defect>,
}

impl Site {
    /// Whether the build has a limit.
    pub fn has(&self, limit: Limit) -> bool {
        self.limits.contains(&limit)
    }

    fn adapter(&self) -> Result<&AdapterSite, CompileError> {
        self.adapter.as_ref().ok_or_else(|| CompileError::new("Type", "the network's mode needs an adapter, and there is none"))
    }
}

impl AdapterSite {
    /// The node's addresses.
    pub fn node_addresses(&self) -> impl Iterator<Item = Ip> + '_ {
        self.addresses.iter().map(|prefix| Ip::from(prefix.addr()))
    }

    /// The node's address of a family, which stands for endpoints that are translated.
    pub fn address_like(&self, other: Ip) -> Option<Ip> {
        self.node_addresses().find(|address| address.is_v4() == other.is_v4() && !address.is_link_local())
    }

    /// Whether an address is on the adapter's own link.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|prefix| prefix.contains(&address))
    }
}

/// The layer in which a port asks a table of services.
pub fn service_layer(table: TableId) -> LayerSpec {
    LayerSpec { name: "service".into(), stateful: true, tables: vec![table], ..LayerSpec::default() }
}

/// A document cannot become rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Which field is at fault.
    pub field: String,
    /// Why.
    pub cause: String,
}

impl CompileError {
    /// An error about a field.
    pub fn new(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into() }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.cause)
    }
}

impl std::error::Error for CompileError {}

/// Precedence of forwarding rules. The more a rule knows, the earlier it is asked.
mod priority {
    /// A rule about one sender.
    pub(super) const SENDER: u16 = 5;
    /// An endpoint.
    pub(super) const ENDPOINT: u16 = 10;
    /// The node's own addresses.
    pub(super) const NODE: u16 = 20;
    /// A gateway.
    pub(super) const GATEWAY: u16 = 50;
    /// Prefixes: this and the bits that are left open.
    pub(super) const PREFIX: u16 = 200;
    /// What goes to the node's hardware address.
    pub(super) const NODE_MAC: u16 = 800;
    /// Everything else.
    pub(super) const DEFAULT: u16 = 1000;
}

/// The precedence of a prefix: the longer, the earlier.
fn prefix_priority(prefix: &IpNet) -> u16 {
    priority::PREFIX + u16::from(prefix.max_prefix_len() - prefix.prefix_len())
}

/// Reads an address of a document.
fn address(field: &str, text: &str) -> Result<IpAddr, CompileError> {
    text.trim().parse().map_err(|_| CompileError::new(field, format!("{text:?} is no IP address")))
}

/// Reads a prefix of a document; an address stands for itself.
fn prefix(field: &str, text: &str) -> Result<IpNet, CompileError> {
    let text = text.trim();
    let host = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>()
        .ok()
        .or_else(host)
        .map(|prefix| prefix.trunc())
        .ok_or_else(|| CompileError::new(field, format!("{text:?} is no prefix")))
}

/// Reads a hardware address of a document.
fn mac(field: &str, text: &str) -> Result<MacAddress, CompileError> {
    text.parse().map_err(|_| CompileError::new(field, format!("{text:?} is no MAC address")))
}

/// The settings of every policy of a type.
fn settings<K: hcn::Field + PartialEq, T: hcn::Field>(policies: &[Policy], kind: &K) -> Result<Vec<T>, CompileError> {
    let of_kind = policies.iter().filter(|policy| policy.is(kind));
    of_kind.map(|policy| policy.settings().map_err(|error| CompileError::new("Policies", error.to_string()))).collect()
}
