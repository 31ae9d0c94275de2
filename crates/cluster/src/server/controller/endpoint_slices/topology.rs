//! Hints by capacity: every zone gets a share of the backends as large as its share of the processors.
//!
//! A Service asks for them with the annotation `service.kubernetes.io/topology-mode`. A backend is for its own zone, unless that has
//! more than its share; then some of its backends are for zones that have less. Where shares cannot be fair, there are no hints.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::packing::Slice;
use crate::server::document::{as_map, list, text};
use crate::server::quantity::Quantity;
use crate::server::resource::NODES;
use crate::server::store::{State, Stored};

/// How much more than its share a backend may get.
const OVERLOAD: f64 = 0.2;

/// Nodes that run the cluster and not what is in it.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// How many backends a zone is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    desired: f64,
    most: usize,
}

/// Backends by zone.
type Counts = BTreeMap<String, usize>;

/// Whether a Service asks for these hints. The older annotation wins.
pub(super) fn is_wanted(service: &Value) -> bool {
    let annotations = &service["metadata"]["annotations"];
    let asked = ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];
    asked.iter().find_map(|name| annotations[*name].as_str()).is_some_and(|mode| matches!(mode, "Auto" | "auto"))
}

/// What a node has to give: its zone and its processors, in thousandths; none if it does not count.
pub(super) fn capacity(node: &Stored) -> Option<(String, i128)> {
    let document = node.document();
    let is_ready =
        list(&document, "/status/conditions").iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if !is_ready || EXCLUDED.iter().any(|label| node.labels.get(label).is_some()) {
        return None;
    }
    let zone = node.labels.get("topology.kubernetes.io/zone").map(|zone| zone.to_string()).unwrap_or_default();
    let processors = Quantity::parse(text(&document, "/status/allocatable/cpu")).map_or(0, |quantity| quantity.millis());
    Some((zone, processors))
}

/// The share of the processors that each zone has. One node that does not say enough makes all of them unknown.
fn ratios(state: &State) -> Option<BTreeMap<String, f64>> {
    let mut by_zone: BTreeMap<String, i128> = BTreeMap::new();
    for (zone, processors) in state.list(&NODES, None, None).filter_map(|node| capacity(node)) {
        if zone.is_empty() || processors == 0 {
            return None;
        }
        *by_zone.entry(zone).or_default() += processors;
    }
    let total: i128 = by_zone.values().sum();
    (by_zone.len() > 1).then(|| by_zone.into_iter().map(|(zone, processors)| (zone, processors as f64 / total as f64)).collect())
}

/// How many of so many backends each zone is to have; none if some zone would be overloaded whatever is done.
fn shares(ratios: &BTreeMap<String, f64>, backends: usize) -> Option<BTreeMap<String, Share>> {
    if ratios.len() > backends {
        return None;
    }
    let desired = |ratio: f64| ratio * backends as f64;
    let least = |ratio: f64| (desired(ratio) / (1.0 + OVERLOAD)).ceil();
    let spare = backends.checked_sub(ratios.values().map(|ratio| least(*ratio) as usize).sum())?;
    let share = |ratio: f64| Share { desired: desired(ratio).max(least(ratio)), most: least(ratio) as usize + spare };
    Some(ratios.iter().map(|(zone, ratio)| (zone.clone(), share(*ratio))).collect())
}

fn is_ready(endpoint: &Value) -> bool {
    endpoint["conditions"]["ready"] == Value::Bool(true)
}

/// Gives hints to all slices of one family, which have none yet.
pub(super) fn add_hints(state: &State, slices: &mut [&mut Slice]) {
    let ready = || slices.iter().flat_map(|slice| &slice.endpoints).filter(|endpoint| is_ready(endpoint));
    let has_zones = ready().all(|endpoint| !text(endpoint, "/zone").is_empty());
    let shares = ratios(state).filter(|_| has_zones).and_then(|ratios| shares(&ratios, ready().count()));
    let Some(shares) = shares else { return };
    let mut counts = Counts::new();
    let mut open: Vec<&mut Value> = Vec::new();
    for slice in slices {
        match kept_hints(slice, &shares, &counts) {
            Some(kept) => {
                for (endpoint, zones) in slice.endpoints.iter_mut().zip(kept) {
                    zones.iter().for_each(|zone| *counts.entry(zone.clone()).or_default() += 1);
                    hint(endpoint, &zones);
                }
            }
            None => open.extend(slice.endpoints.iter_mut().filter(|endpoint| is_ready(endpoint))),
        }
    }
    for endpoint in &mut open {
        let zone = text(endpoint, "/zone").to_owned();
        hint(endpoint, std::slice::from_ref(&zone));
        *counts.entry(zone).or_default() += 1;
    }
    let (giving, receiving) = moves(&shares, &counts);
    redistribute(open, giving, receiving);
}

/// The zones for which the backends of a slice are already, if nothing else changes about it and if no zone has too many then.
fn kept_hints(slice: &Slice, shares: &BTreeMap<String, Share>, counts: &Counts) -> Option<Vec<Vec<String>>> {
    let stored = slice.stored.as_ref()?.document();
    let before = list(&stored, "/endpoints");
    let bare = |endpoint: &Value| {
        let mut bare = endpoint.clone();
        as_map(&mut bare).shift_remove("hints");
        bare
    };
    if !before.iter().map(bare).eq(slice.endpoints.iter().cloned()) {
        return None;
    }
    let zones = |endpoint: &Value| list(endpoint, "/hints/forZones").iter().map(|zone| text(zone, "/name").to_owned()).collect();
    let kept: Vec<Vec<String>> = before.iter().map(|endpoint| if is_ready(endpoint) { zones(endpoint) } else { Vec::new() }).collect();
    let mut counts = counts.clone();
    for (zones, endpoint) in kept.iter().zip(before) {
        if zones.is_empty() && is_ready(endpoint) {
            return None;
        }
        for zone in zones {
            let count = counts.entry(zone.clone()).or_default();
            *count += 1;
            shares.get(zone).filter(|share| *count <= share.most)?;
        }
    }
    Some(kept)
}

fn hint(endpoint: &mut Value, zones: &[String]) {
    if !zones.is_empty() {
        let zones: Vec<Value> = zones.iter().map(|zone| json!({"name": zone})).collect();
        as_map(endpoint).insert("hints".into(), json!({ "forZones": zones }));
    }
}

/// How many backends zones are to give away, and how many to get.
fn moves(shares: &BTreeMap<String, Share>, counts: &Counts) -> (Counts, Counts) {
    let surplus = |(zone, share): (&String, &Share)| (zone.clone(), counts.get(zone).copied().unwrap_or(0) as f64 - share.desired);
    let mut surplus: BTreeMap<String, f64> = shares.iter().map(surplus).collect();
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    loop {
        let by_surplus = |one: &(&String, &f64), other: &(&String, &f64)| one.1.total_cmp(other.1);
        let giver = surplus.iter().max_by(by_surplus).map(|(zone, number)| (zone.clone(), *number));
        let receiver = surplus.iter().min_by(by_surplus).map(|(zone, number)| (zone.clone(), -*number));
        let (Some((giver, spare)), Some((receiver, lack))) = (giver, receiver) else { break };
        // Less than a half is not worth a move, and of two that lack less than one neither gains.
        if spare < 0.5 || lack < 0.5 || (spare < 1.0 && lack < 1.0) {
            break;
        }
        *giving.entry(giver.clone()).or_default() += 1;
        *receiving.entry(receiver.clone()).or_default() += 1;
        *surplus.entry(giver).or_default() -= 1.0;
        *surplus.entry(receiver).or_default() += 1.0;
    }
    (giving, receiving)
}

fn redistribute(open: Vec<&mut Value>, mut giving: Counts, mut receiving: Counts) {
    for endpoint in open {
        let Some(left) = giving.get_mut(text(endpoint, "/zone")).filter(|left| **left > 0) else { continue };
        let Some((zone, lack)) = receiving.iter_mut().find(|(_, lack)| **lack > 0) else { return };
        hint(endpoint, std::slice::from_ref(zone));
        *left -= 1;
        *lack -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(all: &[(&str, f64)]) -> BTreeMap<String, f64> {
        all.iter().map(|(zone, ratio)| ((*zone).to_owned(), *ratio)).collect()
    }

    #[test]
    fn shares_are_fair_or_there_are_none() {
        let even = ratios(&[("a", 0.5), ("b", 0.5)]);
        assert_eq!(shares(&even, 4).unwrap()["a"], Share { desired: 2.0, most: 2 });
        assert_eq!(shares(&even, 3), None, "either zone would need two");
        assert_eq!(shares(&even, 1), None, "there are more zones than backends");
        let odd = shares(&ratios(&[("a", 0.75), ("b", 0.25)]), 8).unwrap();
        assert_eq!((odd["a"], odd["b"]), (Share { desired: 6.0, most: 6 }, Share { desired: 2.0, most: 3 }));
    }

    #[test]
    fn who_has_too_much_gives_to_who_has_too_little() {
        let shares = shares(&ratios(&[("a", 0.5), ("b", 0.25), ("c", 0.25)]), 8).unwrap();
        let counts: Counts = [("a".to_owned(), 7), ("b".to_owned(), 1)].into();
        let (giving, receiving) = moves(&shares, &counts);
        assert_eq!(giving, [("a".to_owned(), 3)].into());
        assert_eq!(receiving, [("b".to_owned(), 1), ("c".to_owned(), 2)].into());
    }
}
