//! `SetPolicy`: addresses under a name, for access lists to refer to.
//!
//! | field | meaning |
//! |---|---|
//! | `Id` | what access lists name, wherever an address can stand |
//! | `Name` | a name for people |
//! | `PolicyType` | `IPSET`: addresses. `NESTEDIPSET`: other sets |
//! | `Values` | addresses and prefixes, or ids of other sets, separated by commas; a set may be empty, and then holds no address |
//!
//! Sets belong to a network, and the access lists of the network and of its endpoints may name them. A change of a set changes the rules
//! that name it, here by compiling the network's endpoints anew. A set of sets holds the addresses of all of them; sets that contain each
//! other in a circle are refused, and so is taking away a set that something names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hcn::policy::Policy;
use hcn::policy::network::{NetworkPolicyType, SetPolicySettings, SetPolicyType};
use ipnet::IpNet;

use super::{CompileError, prefix, settings};
use crate::validate::text;

/// The sets of a network, each with all its addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sets(HashMap<String, Arc<[IpNet]>>);

impl Sets {
    /// Those of a network's policies.
    pub fn of(policies: &[Policy]) -> Result<Self, CompileError> {
        let sets: Vec<SetPolicySettings> = settings(policies, &NetworkPolicyType::SetPolicy)?;
        let mut found = Self::default();
        let nested: Vec<(String, Vec<String>)> = members(&sets);
        let order = in_order(&nested).map_err(|circle| CompileError::new("Values", says(&circle)))?;
        for set in sets.iter().filter(|set| set.policy_type != SetPolicyType::NestedIpSet) {
            let prefixes = text::list(&set.values).map(|element| prefix("Values", element)).collect::<Result<BTreeSet<_>, _>>()?;
            found.0.insert(set.id.clone(), prefixes.into_iter().collect());
        }
        for index in order {
            let (id, members) = &nested[index];
            let addresses = found.union(members)?;
            found.0.insert(id.clone(), addresses);
        }
        Ok(found)
    }

    /// The addresses of a set.
    pub fn get(&self, id: &str) -> Option<Arc<[IpNet]>> {
        self.0.get(id).cloned()
    }

    fn union(&self, members: &[String]) -> Result<Arc<[IpNet]>, CompileError> {
        let mut all = BTreeSet::new();
        for member in members {
            let set = self.0.get(member).ok_or_else(|| CompileError::new("Values", format!("{member:?} is the id of no set")))?;
            all.extend(set.iter().copied());
        }
        Ok(all.into_iter().collect())
    }
}

/// The sets of sets, each with those it names.
pub(crate) fn members(sets: &[SetPolicySettings]) -> Vec<(String, Vec<String>)> {
    let nested = sets.iter().filter(|set| set.policy_type == SetPolicyType::NestedIpSet);
    nested.map(|set| (set.id.clone(), text::list(&set.values).map(str::to_owned).collect())).collect()
}

/// The sets of sets in an order in which each comes after those it names; or a circle of them. Without recursion, as a chain of sets may be
/// long.
pub(crate) fn in_order(nested: &[(String, Vec<String>)]) -> Result<Vec<usize>, Vec<String>> {
    let numbers: BTreeMap<&str, usize> = nested.iter().enumerate().map(|(number, (id, _))| (id.as_str(), number)).collect();
    let mut waits: Vec<usize> = vec![0; nested.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nested.len()];
    for (number, (_, members)) in nested.iter().enumerate() {
        for member in members.iter().filter_map(|member| numbers.get(member.as_str())) {
            waits[number] += 1;
            users[*member].push(number);
        }
    }
    let mut order: Vec<usize> = (0..nested.len()).filter(|number| waits[*number] == 0).collect();
    let mut next = 0;
    while let Some(number) = order.get(next).copied() {
        next += 1;
        for user in &users[number] {
            waits[*user] -= 1;
            if waits[*user] == 0 {
                order.push(*user);
            }
        }
    }
    match waits.iter().position(|waits| *waits > 0) {
        None => Ok(order),
        Some(first) => Err(circle(nested, &numbers, &waits, first)),
    }
}

/// Follows sets that wait for each other until one comes again.
fn circle(nested: &[(String, Vec<String>)], numbers: &BTreeMap<&str, usize>, waits: &[usize], first: usize) -> Vec<String> {
    let (mut path, mut seen, mut here) = (Vec::new(), BTreeMap::new(), first);
    while seen.insert(here, path.len()).is_none() {
        path.push(here);
        let waiting = nested[here].1.iter().filter_map(|member| numbers.get(member.as_str())).find(|member| waits[**member] > 0);
        let Some(next) = waiting else { break };
        here = *next;
    }
    let start = path.iter().position(|number| *number == here).unwrap_or(0);
    path[start..].iter().chain([&here]).map(|number| nested[*number].0.clone()).collect()
}

/// A circle, for people.
pub(crate) fn says(circle: &[String]) -> String {
    format!("the sets contain each other in a circle: {}", circle.join(" > "))
}
