//! Finding the first rule that matches, at a cost that hardly grows with the number of rules.
//!
//! Rules that ask for one thing only (a destination prefix, a frame address, a virtual network, or a service's address,
//! protocol and port) are found by hash. All others go through one bit vector per dimension: the bits of the rules that accept this
//! packet's source, destination, ports and protocol are and-ed, and the first bit left is the rule.

mod bits;
mod dimension;
mod services;
mod vector;

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use ipnet::IpNet;
use smallvec::SmallVec;
use wire::{FlowId, Ip, MacAddress};

use crate::condition::{AddressMatch, Conditions};
use crate::rule::Rule;
use services::Services;
use vector::Vector;

/// What conditions look at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) id: FlowId,
    pub(crate) source_mac: MacAddress,
    pub(crate) destination_mac: MacAddress,
    pub(crate) ether_type: u16,
    pub(crate) vni: Option<u32>,
}

/// How many rules that ask for source ports are looked at one by one.
const LOOKED_AT: usize = 64;

/// Precedence: priority, then age.
pub(crate) type Rank = (u16, u64);

/// A rule with its precedence.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) rank: Rank,
    pub(crate) rule: Arc<Rule>,
}

/// Rules that ask for the same, in order of precedence. Nearly always there is one, which then lies where it is looked for.
type Bucket = SmallVec<[Ranked; 1]>;

/// Rules by what they ask for.
#[derive(Debug, Default)]
pub(crate) struct Classifier {
    /// By length of the prefix, then by the prefix.
    by_destination: BTreeMap<u8, HashMap<u128, Bucket>>,
    by_destination_mac: HashMap<MacAddress, Bucket>,
    by_vni: HashMap<u32, Bucket>,
    by_service: Services,
    rest: Vector,
    next_age: u64,
    /// Rules that ask which port a packet is sent from.
    by_source_port: Vec<Arc<Rule>>,
}

/// What a rule asks for, if it is one thing only.
enum Shape {
    Destination(u8, u128),
    DestinationMac(MacAddress),
    Vni(u32),
    Service(Ip, u8, u16),
    Any,
}

/// A prefix as a length and the bits that count, both for addresses as one number.
pub(crate) fn key(prefix: &IpNet) -> (u8, u128) {
    let bits = match prefix {
        IpNet::V4(prefix) => V4_BITS + prefix.prefix_len(),
        IpNet::V6(prefix) => prefix.prefix_len(),
    };
    (bits, Ip::from(prefix.addr()).0 & mask(bits))
}

/// How many bits all IPv4 addresses have in common. A prefix of fewer bits is one of IPv6, and has no IPv4 address in it.
const V4_BITS: u8 = 96;

/// Whether a prefix of this many bits may hold an address, as far as its family goes.
pub(crate) const fn is_family(bits: u8, address: Ip) -> bool {
    bits >= V4_BITS || !address.is_v4()
}

pub(crate) const fn mask(bits: u8) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits as u32),
    }
}

fn shape(conditions: &Conditions) -> Shape {
    let Conditions { protocols, sources, destinations, source_ports, destination_ports, source_macs, destination_macs, vni, ether_types } =
        conditions;
    if !(sources.is_empty() && source_ports.is_empty() && source_macs.is_empty() && ether_types.is_empty()) {
        return Shape::Any;
    }
    let service = (protocols.as_slice(), destinations.as_slice(), destination_ports.as_slice(), destination_macs.as_slice(), vni);
    match service {
        ([], [AddressMatch::Prefix(prefix)], [], [], None) => {
            let (bits, address) = key(prefix);
            Shape::Destination(bits, address)
        }
        ([], [], [], [mac], None) => Shape::DestinationMac(*mac),
        ([], [], [], [], Some(vni)) => Shape::Vni(*vni),
        ([protocol], [AddressMatch::Prefix(prefix)], [ports], [], None)
            if prefix.prefix_len() == prefix.max_prefix_len() && ports.start() == ports.end() =>
        {
            Shape::Service(Ip::from(prefix.addr()), *protocol, *ports.start())
        }
        _ => Shape::Any,
    }
}

/// Adds to a bucket, kept in order of precedence.
fn put(bucket: &mut Bucket, ranked: Ranked) {
    let at = bucket.partition_point(|other| other.rank < ranked.rank);
    bucket.insert(at, ranked);
}

impl Classifier {
    /// All of these rules, the earlier ones first among equals.
    pub(crate) fn build(rules: &[Arc<Rule>]) -> Self {
        let mut classifier = Self::default();
        let mut rest = Vec::new();
        for rule in rules {
            classifier.next_age += 1;
            classifier.by_source_port.extend(Some(rule.clone()).filter(asks_source_port));
            let ranked = Ranked { rank: (rule.spec.priority, classifier.next_age), rule: rule.clone() };
            match classifier.bucket(&rule.spec.conditions) {
                Some(bucket) => put(bucket, ranked),
                None => rest.push(ranked),
            }
        }
        classifier.rest.extend(rest);
        classifier
    }

    /// Adds a rule. The cost does not depend on how many there are, unless the rule is of no simple shape.
    pub(crate) fn insert(&mut self, rule: Arc<Rule>) {
        self.next_age += 1;
        self.by_source_port.extend(Some(rule.clone()).filter(asks_source_port));
        let ranked = Ranked { rank: (rule.spec.priority, self.next_age), rule };
        match self.bucket(&ranked.rule.spec.conditions) {
            Some(bucket) => put(bucket, ranked),
            None => self.rest.insert(ranked),
        }
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, rule: &Arc<Rule>) {
        match self.bucket(&rule.spec.conditions) {
            Some(bucket) => bucket.retain(|other| other.rule.id != rule.id),
            None => self.rest.remove(rule.id),
        }
        self.forget_empty(&rule.spec.conditions);
        self.by_source_port.retain(|other| other.id != rule.id);
    }

    /// Whether packets that differ from this one in their source port alone may find other rules. Of very many rules that ask for it, it is
    /// not looked which.
    pub(crate) fn asks_source_port(&self, subject: &Subject) -> bool {
        let is_asked = |rule: &Arc<Rule>| rule.spec.conditions.accepts_from_some_port(subject);
        self.by_source_port.len() > LOOKED_AT || self.by_source_port.iter().any(is_asked)
    }

    fn bucket(&mut self, conditions: &Conditions) -> Option<&mut Bucket> {
        Some(match shape(conditions) {
            Shape::Destination(bits, address) => self.by_destination.entry(bits).or_default().entry(address).or_default(),
            Shape::DestinationMac(mac) => self.by_destination_mac.entry(mac).or_default(),
            Shape::Vni(vni) => self.by_vni.entry(vni).or_default(),
            Shape::Service(address, protocol, port) => self.by_service.bucket((address, protocol, port)),
            Shape::Any => return None,
        })
    }

    fn forget_empty(&mut self, conditions: &Conditions) {
        match shape(conditions) {
            Shape::Destination(bits, address) => {
                let Some(table) = self.by_destination.get_mut(&bits) else { return };
                if table.get(&address).is_some_and(|bucket| bucket.is_empty()) {
                    table.remove(&address);
                }
                if table.is_empty() {
                    self.by_destination.remove(&bits);
                }
            }
            Shape::DestinationMac(mac) => drop_empty(&mut self.by_destination_mac, &mac),
            Shape::Vni(vni) => drop_empty(&mut self.by_vni, &vni),
            Shape::Service(address, protocol, port) => self.by_service.drop_empty((address, protocol, port)),
            Shape::Any => {}
        }
    }

    /// The first rule that matches, of those behind `after` in precedence.
    pub(crate) fn find(&self, subject: &Subject, after: Option<Rank>) -> Option<&Ranked> {
        let FlowId { destination, protocol, destination_port, .. } = subject.id;
        let mut best = self.rest.find(subject, after);
        for bucket in self.buckets(subject, destination, protocol, destination_port) {
            let candidate = bucket.iter().find(|ranked| after.is_none_or(|after| ranked.rank > after));
            best = match (best, candidate) {
                (Some(left), Some(right)) => Some(if right.rank < left.rank { right } else { left }),
                (left, right) => left.or(right),
            };
        }
        best
    }

    fn buckets<'a>(&'a self, subject: &Subject, destination: Ip, protocol: u8, port: u16) -> impl Iterator<Item = &'a Bucket> {
        let by_prefix = self.by_destination.iter().filter(move |(bits, _)| is_family(**bits, destination));
        let by_prefix = by_prefix.filter_map(move |(bits, table)| table.get(&(destination.0 & mask(*bits))));
        let by_mac = self.by_destination_mac.get(&subject.destination_mac);
        let by_vni = subject.vni.and_then(|vni| self.by_vni.get(&vni));
        let by_service = self.by_service.get((destination, protocol, port));
        by_prefix.chain(by_mac).chain(by_vni).chain(by_service)
    }
}

fn asks_source_port(rule: &Arc<Rule>) -> bool {
    !rule.spec.conditions.source_ports.is_empty()
}

fn drop_empty<K: std::hash::Hash + Eq>(table: &mut HashMap<K, Bucket>, key: &K) {
    if table.get(key).is_some_and(|bucket| bucket.is_empty()) {
        table.remove(key);
    }
}

#[cfg(test)]
mod tests;
