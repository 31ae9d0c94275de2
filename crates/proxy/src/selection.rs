//! Which backends serve whom.
//!
//! The rules are those that every Service proxy of Kubernetes follows:
//!
//! * Clients get backends that are ready. While none is, they get those that still serve although they are about to end.
//! * Hints prefer backends of the same node, else of the same zone, if every backend that is ready has such hints and some of them
//!   are meant for here.
//! * With the Local traffic policy only backends on this node count, and no hints.

use crate::backend::Backend;
use crate::service::ServicePort;

/// Where this node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The node's name.
    pub node: String,
    /// The zone it is in, if it says so.
    pub zone: Option<String>,
}

/// The backends of a port, by who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection<'a> {
    /// For clients in the cluster.
    pub internal: Vec<&'a Backend>,
    /// For clients outside.
    pub external: Vec<&'a Backend>,
    /// For clients in the cluster that use an address meant for those outside.
    pub short_cut: Vec<&'a Backend>,
    /// How many ready backends are on this node.
    pub local_ready: usize,
}

/// Selects the backends of a port.
pub fn select<'a>(port: &ServicePort, backends: &'a [Backend], here: &Location) -> Selection<'a> {
    let everywhere = everywhere(backends, here);
    let local = || local(backends);
    Selection {
        internal: if port.internal_local { local() } else { everywhere.clone() },
        external: if port.external_local { local() } else { everywhere.clone() },
        short_cut: everywhere,
        local_ready: backends.iter().filter(|backend| backend.is_local && backend.is_ready).count(),
    }
}

fn everywhere<'a>(backends: &'a [Backend], here: &Location) -> Vec<&'a Backend> {
    let ready: Vec<&Backend> = backends.iter().filter(|backend| backend.is_ready).collect();
    match ready.is_empty() {
        true => backends.iter().filter(|backend| is_last_resort(backend)).collect(),
        false => nearest(ready, here),
    }
}

fn local(backends: &[Backend]) -> Vec<&Backend> {
    let here = || backends.iter().filter(|backend| backend.is_local);
    let ready: Vec<&Backend> = here().filter(|backend| backend.is_ready).collect();
    match ready.is_empty() {
        true => here().filter(|backend| is_last_resort(backend)).collect(),
        false => ready,
    }
}

fn is_last_resort(backend: &Backend) -> bool {
    backend.is_serving && backend.is_terminating
}

/// Those of the ready backends that hints say are for here; all of them where hints are missing or none is for here.
fn nearest<'a>(ready: Vec<&'a Backend>, here: &Location) -> Vec<&'a Backend> {
    let for_node = |backend: &Backend| backend.nodes.as_ref().map(|nodes| nodes.contains(&here.node));
    let for_zone = |backend: &Backend| Some(backend.zones.as_ref()?.contains(here.zone.as_ref()?));
    let by_node = hinted(&ready, for_node);
    by_node.or_else(|| hinted(&ready, for_zone)).unwrap_or(ready)
}

/// The backends that hints are for, if all have hints and some are for here.
fn hinted<'a>(ready: &[&'a Backend], is_for_here: impl Fn(&Backend) -> Option<bool>) -> Option<Vec<&'a Backend>> {
    let mut found = Vec::new();
    for backend in ready {
        if is_for_here(backend)? {
            found.push(*backend);
        }
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests;
