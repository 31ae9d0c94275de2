//! A forwarding domain: ports that reach each other by the same rules.
//!
//! One domain is an adapter with all that is bridged onto it, or one virtual network of an overlay, or an internal switch. Its
//! rules change one at a time, as endpoints come and go.

use std::collections::BTreeSet;

use crate::group::{Group, Stage};
use crate::port::{PortId, PortKind};
use crate::rule::{Place, Registry, RuleSpec};

/// A domain, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u32);

/// What happens to a frame for a group of receivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flood {
    /// It is dropped.
    #[default]
    Nobody,
    /// From a NIC, it goes out by the uplink and to the ports listed; from the wire, to the ports listed.
    Listed,
    /// It goes to every other port.
    Everybody,
}

/// A domain as it is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainSpec {
    /// What it is known by.
    pub name: String,
    /// What happens to frames for groups of receivers.
    pub flood: Flood,
    /// Whether frames that are neither IP nor ARP are forwarded.
    pub other_protocols: bool,
}

/// A domain in force.
#[derive(Debug, Default)]
pub(crate) struct Domain {
    pub(crate) spec: DomainSpec,
    pub(crate) ports: BTreeSet<PortId>,
    /// Ports that receive what goes to groups where not everybody does.
    pub(crate) listed: BTreeSet<PortId>,
    /// Ports of other domains that its rules have sent to from other domains. Their flows must notice when its rules change.
    pub(crate) visited: BTreeSet<PortId>,
    groups: [Group; 4],
}

impl Domain {
    pub(crate) fn new(spec: DomainSpec) -> Self {
        Self { spec, ..Self::default() }
    }

    /// The group for packets of a kind of port.
    pub(crate) fn forward(&self, from: PortKind) -> &Group {
        self.group(if from == PortKind::Nic { Stage::ForwardOut } else { Stage::ForwardIn })
    }

    /// The group for neighbour messages of a kind of port.
    pub(crate) fn neighbour(&self, from: PortKind) -> &Group {
        self.group(if from == PortKind::Nic { Stage::NeighbourOut } else { Stage::NeighbourIn })
    }

    fn group(&self, stage: Stage) -> &Group {
        &self.groups[stage as usize]
    }

    pub(crate) fn put(&mut self, stage: Stage, rule: RuleSpec, registry: &mut Registry) -> bool {
        let (layer, group) = stage.names();
        let place = Place { owner: self.spec.name.clone(), layer: layer.to_owned(), group: group.to_owned(), rule: String::new() };
        self.groups[stage as usize].put(&place, rule, registry)
    }

    pub(crate) fn remove(&mut self, stage: Stage, name: &str) -> bool {
        self.groups[stage as usize].remove(name)
    }
}
