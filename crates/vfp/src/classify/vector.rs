//! Rules of any shape: one bit vector per dimension.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use wire::Ip;

use super::dimension::Dimension;
use super::{Rank, Ranked, Subject, is_family, key, mask};
use crate::condition::{AddressMatch, Conditions};
use crate::rule::RuleId;

/// The rules and what each value of each dimension leaves of them.
#[derive(Debug, Default)]
pub(crate) struct Vector {
    /// In order of precedence: the number of a rule is its place here.
    rules: Vec<Ranked>,
    sources: Dimension<u128>,
    destinations: Dimension<u128>,
    source_ports: Dimension<u16>,
    destination_ports: Dimension<u16>,
    protocols: Dimension<u16>,
}

fn addresses(matches: &[AddressMatch]) -> Vec<RangeInclusive<u128>> {
    let mut ranges: Vec<_> = matches.iter().flat_map(AddressMatch::prefixes).flat_map(ranges).collect();
    // A set without members accepts no address, which no list says that is empty itself; an empty range does.
    if ranges.is_empty() && !matches.is_empty() {
        ranges.push(RangeInclusive::new(1, 0));
    }
    ranges
}

/// The addresses of a prefix. Those of a short IPv6 prefix lie on both sides of IPv4.
fn ranges(prefix: &IpNet) -> impl Iterator<Item = RangeInclusive<u128>> {
    let (bits, first) = key(prefix);
    let last = first | !mask(bits);
    let (v4_first, v4_last) = (Ip::v4(0).0, Ip::v4(u32::MAX).0);
    let around = !is_family(bits, Ip::v4(0)) && (first..=last).contains(&v4_first);
    let parts = if around { [Some(first..=v4_first - 1), Some(v4_last + 1..=last)] } else { [Some(first..=last), None] };
    parts.into_iter().flatten()
}

impl Vector {
    pub(crate) fn insert(&mut self, ranked: Ranked) {
        let at = self.rules.partition_point(|other| other.rank < ranked.rank);
        self.rules.insert(at, ranked);
        self.rebuild();
    }

    pub(crate) fn extend(&mut self, rules: Vec<Ranked>) {
        if rules.is_empty() {
            return;
        }
        self.rules.extend(rules);
        self.rules.sort_by_key(|ranked| ranked.rank);
        self.rebuild();
    }

    pub(crate) fn remove(&mut self, id: RuleId) {
        self.rules.retain(|ranked| ranked.rule.id != id);
        self.rebuild();
    }

    fn rebuild(&mut self) {
        let each = |ranges: &dyn Fn(&Conditions) -> Vec<RangeInclusive<u16>>| -> Vec<Vec<RangeInclusive<u16>>> {
            self.rules.iter().map(|ranked| ranges(&ranked.rule.spec.conditions)).collect()
        };
        let addresses_of = |matches: &dyn Fn(&Conditions) -> &[AddressMatch]| -> Vec<Vec<RangeInclusive<u128>>> {
            self.rules.iter().map(|ranked| addresses(matches(&ranked.rule.spec.conditions))).collect()
        };
        let sources = Dimension::build(&addresses_of(&|conditions| &conditions.sources));
        let destinations = Dimension::build(&addresses_of(&|conditions| &conditions.destinations));
        let source_ports = Dimension::build(&each(&|conditions| conditions.source_ports.clone()));
        let destination_ports = Dimension::build(&each(&|conditions| conditions.destination_ports.clone()));
        let protocols = Dimension::build(&each(&|conditions| conditions.protocols.iter().map(|n| u16::from(*n)..=u16::from(*n)).collect()));
        (self.sources, self.destinations) = (sources, destinations);
        (self.source_ports, self.destination_ports, self.protocols) = (source_ports, destination_ports, protocols);
    }

    pub(crate) fn find(&self, subject: &Subject, after: Option<Rank>) -> Option<&Ranked> {
        if self.rules.is_empty() {
            return None;
        }
        let id = &subject.id;
        let sets = [
            self.sources.accept(id.source.0),
            self.destinations.accept(id.destination.0),
            self.source_ports.accept(id.source_port),
            self.destination_ports.accept(id.destination_port),
            self.protocols.accept(u16::from(id.protocol)),
        ];
        for word in 0..self.rules.len().div_ceil(64) {
            let mut left = sets.iter().fold(u64::MAX, |left, set| left & set.get(word).copied().unwrap_or(0));
            while left != 0 {
                let number = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let Some(ranked) = self.rules.get(number) else { break };
                if after.is_none_or(|after| ranked.rank > after) && accepts_frame(&ranked.rule.spec.conditions, subject) {
                    return Some(ranked);
                }
            }
        }
        None
    }
}

/// The conditions that have no dimension, because few rules ask for them.
fn accepts_frame(conditions: &Conditions, subject: &Subject) -> bool {
    fn accepts<T: PartialEq>(list: &[T], value: &T) -> bool {
        list.is_empty() || list.contains(value)
    }
    accepts(&conditions.source_macs, &subject.source_mac)
        && accepts(&conditions.destination_macs, &subject.destination_mac)
        && accepts(&conditions.ether_types, &subject.ether_type)
        && conditions.vni.is_none_or(|vni| subject.vni == Some(vni))
}
