//! The network behind an uplink, as far as the switch itself sends into it.

use foldhash::HashMap;

use ipnet::IpNet;
use wire::{Ip, MacAddress};

use crate::classify::{is_family, key, mask};
use crate::port::PortId;

/// An underlay, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnderlayId(pub u32);

/// How a prefix is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Its addresses are on the link.
    Link,
    /// Through this router.
    Gateway(Ip),
}

/// An underlay as it is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnderlaySpec {
    /// The port of the uplink.
    pub uplink: PortId,
    /// The address that frames are sent from.
    pub mac: MacAddress,
    /// Routes; the longest prefix decides.
    pub routes: Vec<(IpNet, NextHop)>,
}

/// An underlay in force, with the neighbours that are known.
#[derive(Debug, Default)]
pub(crate) struct Underlay {
    pub(crate) spec: UnderlaySpec,
    pub(crate) neighbours: HashMap<Ip, MacAddress>,
}

/// Where a routed packet goes, or what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routed {
    Hop { uplink: PortId, source_mac: MacAddress, destination_mac: MacAddress },
    Unresolved(Ip),
    NoRoute,
}

impl Underlay {
    pub(crate) fn route(&self, destination: Ip) -> Routed {
        let covers = |prefix: &IpNet| {
            let (bits, network) = key(prefix);
            (is_family(bits, destination) && destination.0 & mask(bits) == network).then_some(bits)
        };
        let best = self.spec.routes.iter().filter_map(|(prefix, hop)| Some((covers(prefix)?, hop))).max_by_key(|(bits, _)| *bits);
        let hop = match best {
            Some((_, NextHop::Gateway(gateway))) => *gateway,
            Some((_, NextHop::Link)) => destination,
            None => return Routed::NoRoute,
        };
        match self.neighbours.get(&hop) {
            Some(mac) => Routed::Hop { uplink: self.spec.uplink, source_mac: self.spec.mac, destination_mac: *mac },
            None => Routed::Unresolved(hop),
        }
    }
}
