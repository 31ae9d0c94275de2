//! A forwarding domain: ports that reach each other by the same rules.
//!
//! One domain is an adapter with all that is bridged onto it, or one virtual network of an overlay, or an internal switch. Its
//! rules change one at a time, as endpoints come and go.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Encapsulation, Ip, MacAddress};

use crate::action::Action;
use crate::classify::Subject;
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
    /// The nodes that its rules push to, each with how many do.
    providers: BTreeMap<Ip, usize>,
    /// As whom they do, each with how many.
    speakers: BTreeMap<Speaker, usize>,
}

/// Whom the datagrams of a tunnel are from, and to which transport port they go.
pub(crate) type Speaker = (Ip, u16);

/// What a rule pushes for another node. Clients name addresses of Services as places on their own node, which are no places at all.
fn pushed(rule: &RuleSpec) -> Option<Encapsulation> {
    match &rule.action {
        Action::Push { encapsulation, .. } => Some(*encapsulation).filter(|outer| outer.remote != outer.local),
        _ => None,
    }
}

fn uncount<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
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
        let before = self.group(stage).get(&rule.name).and_then(|rule| pushed(&rule.spec));
        let after = pushed(&rule);
        let changed = self.groups[stage as usize].put(&place, rule, registry);
        if changed {
            before.iter().for_each(|before| self.forget(before));
            after.iter().for_each(|after| self.note(after));
        }
        changed
    }

    pub(crate) fn remove(&mut self, stage: Stage, name: &str) -> bool {
        let before = self.group(stage).get(name).and_then(|rule| pushed(&rule.spec));
        before.iter().for_each(|before| self.forget(before));
        self.groups[stage as usize].remove(name)
    }

    fn note(&mut self, outer: &Encapsulation) {
        *self.providers.entry(outer.remote).or_default() += 1;
        *self.speakers.entry((outer.local, outer.port)).or_default() += 1;
    }

    fn forget(&mut self, outer: &Encapsulation) {
        uncount(&mut self.providers, &outer.remote);
        uncount(&mut self.speakers, &(outer.local, outer.port));
    }

    /// Whether its rules push to a node: only such a node may send into it.
    pub(crate) fn knows(&self, provider: Ip) -> bool {
        self.providers.contains_key(&provider)
    }

    /// Whether a datagram of its tunnels is from this address to this port.
    pub(crate) fn speaks_as(&self, speaker: Speaker) -> bool {
        self.speakers.contains_key(&speaker)
    }

    /// All such addresses and ports; few, as nodes have few tunnels.
    pub(crate) fn speakers(&self) -> Vec<Speaker> {
        self.speakers.keys().copied().collect()
    }

    /// What happens to packets of its NICs that go to where this one comes from.
    pub(crate) fn way_back(&self, subject: &Subject) -> Option<&Action> {
        let mut back = *subject;
        (back.destination_mac, back.id.destination) = (MacAddress::default(), subject.id.source);
        self.group(Stage::ForwardOut).find(&back, &mut |_| {}).map(|rule| &rule.spec.action)
    }
}
