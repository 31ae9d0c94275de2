//! Backends into slices, touching as few slices as can be: each change of one is sent to every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{backends, families, ports_of};
use crate::server::document::{list, text};
use crate::server::store::{State, Stored};

/// How many backends a slice has at most.
const FULL: usize = 100;

/// What slices must have in common to be one: family of addresses and ports.
type Group = (String, String);

/// The backends that a Service is to have.
#[derive(Debug)]
pub(super) struct Wanted {
    /// By group, the ports and the entries by their address.
    groups: BTreeMap<Group, (Value, BTreeMap<String, Value>)>,
    families: Vec<String>,
}

/// A slice as it is to be.
#[derive(Debug)]
pub(super) struct Slice {
    /// The one that is there already.
    pub(super) stored: Option<Arc<Stored>>,
    pub(super) family: String,
    pub(super) ports: Value,
    pub(super) endpoints: Vec<Value>,
}

impl Wanted {
    pub(super) fn of(state: &State, service: &Value) -> Self {
        let families = families(service);
        let mut groups: BTreeMap<Group, (Value, BTreeMap<String, Value>)> = BTreeMap::new();
        for backend in backends(state, service) {
            let ports = Value::from(ports_of(service, &backend));
            for family in &families {
                if let Some(address) = backend.address(family) {
                    let group = groups.entry((family.clone(), ports.to_string())).or_insert_with(|| (ports.clone(), BTreeMap::new()));
                    let endpoint = backend.endpoint(service, &address);
                    group.1.insert(address, endpoint);
                }
            }
        }
        Self { groups, families }
    }
}

/// Puts backends into slices. Returns the slices as they are to be, and those that are not needed any more.
pub(super) fn pack(existing: Vec<Arc<Stored>>, wanted: Wanted) -> (Vec<Slice>, Vec<Arc<Stored>>) {
    let Wanted { mut groups, families } = wanted;
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for stored in existing {
        let document = stored.document();
        let family = text(&document, "/addressType").to_owned();
        let group = (family.clone(), document["ports"].to_string());
        let Some((ports, left)) = groups.get_mut(&group) else {
            gone.push(stored);
            continue;
        };
        // Backends stay in the slice they are in.
        let here = list(&document, "/endpoints").iter().filter_map(|endpoint| left.remove(text(endpoint, "/addresses/0")));
        kept.push(Slice { endpoints: here.collect(), stored: Some(stored), family, ports: ports.clone() });
    }
    for ((family, _), (ports, left)) in groups {
        let fits = |slice: &&mut Slice| slice.family == family && slice.ports == ports;
        let mut left = left.into_values();
        for slice in kept.iter_mut().filter(fits) {
            let room = FULL.saturating_sub(slice.endpoints.len());
            slice.endpoints.extend(left.by_ref().take(room));
        }
        let left: Vec<Value> = left.collect();
        kept.extend(left.chunks(FULL).map(|chunk| Slice {
            stored: None,
            family: family.clone(),
            ports: ports.clone(),
            endpoints: chunk.to_vec(),
        }));
    }
    let (mut kept, empty): (Vec<Slice>, Vec<Slice>) = kept.into_iter().partition(|slice| !slice.endpoints.is_empty());
    gone.extend(empty.into_iter().filter_map(|slice| slice.stored));
    keep_one_each(&families, &mut kept, &mut gone);
    (kept, gone)
}

/// A family without backends has one empty slice, so that whoever follows knows that there are none.
fn keep_one_each(families: &[String], kept: &mut Vec<Slice>, gone: &mut Vec<Arc<Stored>>) {
    for family in families {
        if kept.iter().any(|slice| slice.family == *family) {
            continue;
        }
        let at = gone.iter().position(|stored| text(&stored.document(), "/addressType") == family);
        let stored = at.map(|at| gone.remove(at));
        kept.push(Slice { stored, family: family.clone(), ports: Value::Null, endpoints: Vec::new() });
    }
}
