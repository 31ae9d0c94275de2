//! The first half of a rule: which packets it is about.

use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use wire::{FlowId, Ip, MacAddress};

use crate::classify::Subject;

/// Transport ports from one to another, both included.
pub type PortRange = RangeInclusive<u16>;

/// Addresses that a condition accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressMatch {
    /// Every address in this prefix.
    Prefix(IpNet),
    /// Every address in one of the prefixes of this set.
    Set(Arc<[IpNet]>),
}

impl AddressMatch {
    /// One address.
    pub fn host(address: Ip) -> Self {
        Self::Prefix(IpNet::from(std::net::IpAddr::from(address)))
    }

    /// Its prefixes.
    pub fn prefixes(&self) -> &[IpNet] {
        match self {
            Self::Prefix(prefix) => std::slice::from_ref(prefix),
            Self::Set(set) => set,
        }
    }
}

/// What must hold for a rule to match. An empty list accepts anything; the lists of one condition are alternatives, the
/// conditions must hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Protocols of the IP payload.
    pub protocols: Vec<u8>,
    /// Source addresses.
    pub sources: Vec<AddressMatch>,
    /// Destination addresses.
    pub destinations: Vec<AddressMatch>,
    /// Source ports.
    pub source_ports: Vec<PortRange>,
    /// Destination ports.
    pub destination_ports: Vec<PortRange>,
    /// Source addresses of the frame.
    pub source_macs: Vec<MacAddress>,
    /// Destination addresses of the frame.
    pub destination_macs: Vec<MacAddress>,
    /// The virtual network the frame came from.
    pub vni: Option<u32>,
    /// What the frame carries.
    pub ether_types: Vec<u16>,
}

impl Conditions {
    /// Accepts everything.
    pub fn any() -> Self {
        Self::default()
    }

    /// Whether packets like this one are accepted from some source port.
    pub(crate) fn accepts_from_some_port(&self, subject: &Subject) -> bool {
        let FlowId { source, destination, destination_port, protocol, .. } = subject.id;
        let has = |list: &[AddressMatch], address: Ip| {
            let address = std::net::IpAddr::from(address);
            list.is_empty() || list.iter().flat_map(AddressMatch::prefixes).any(|prefix| prefix.contains(&address))
        };
        fn one<T: PartialEq>(list: &[T], value: &T) -> bool {
            list.is_empty() || list.contains(value)
        }
        has(&self.sources, source)
            && has(&self.destinations, destination)
            && one(&self.protocols, &protocol)
            && (self.destination_ports.is_empty() || self.destination_ports.iter().any(|range| range.contains(&destination_port)))
            && one(&self.source_macs, &subject.source_mac)
            && one(&self.destination_macs, &subject.destination_mac)
            && self.vni.is_none_or(|vni| subject.vni == Some(vni))
            && one(&self.ether_types, &subject.ether_type)
    }

    /// Accepts packets to this address.
    pub fn to(address: Ip) -> Self {
        Self { destinations: vec![AddressMatch::host(address)], ..Self::default() }
    }

    /// Accepts packets to this prefix.
    pub fn to_prefix(prefix: IpNet) -> Self {
        Self { destinations: vec![AddressMatch::Prefix(prefix)], ..Self::default() }
    }

    /// Accepts frames to this address.
    pub fn to_mac(mac: MacAddress) -> Self {
        Self { destination_macs: vec![mac], ..Self::default() }
    }

    /// Accepts frames of this virtual network.
    pub fn of_vni(vni: u32) -> Self {
        Self { vni: Some(vni), ..Self::default() }
    }
}
