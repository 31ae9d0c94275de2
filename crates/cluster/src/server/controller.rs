//! Controllers: they follow what happens and bring about what documents promise.
//!
//! A controller names the objects that an event concerns, and looks at each of them in a draft: what it reads there is how
//! things are at that very moment, and what it changes happens with it or not at all. So there is nothing to expect, to
//! retry or to undo, and a missed event is made up for by looking again.

mod deployment;
mod endpoint_slices;
mod endpoints;
mod garbage;
mod ip_addresses;
mod namespaces;
mod replica_set;
mod service_accounts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::task::JoinSet;

use super::allocation::Ranges;
use super::operation::Api;
use super::resource::ALL;
use super::status::Result;
use super::store::{Draft, Event, Key, State};

/// How many objects are looked at in one draft.
const BATCH: usize = 32;

/// The least time between two looks at an object to which nothing happens.
const PAUSE: Duration = Duration::from_millis(100);

/// Somebody who keeps a promise.
trait Controller: Send + Sync {
    /// What it is called in the log.
    fn name(&self) -> &'static str;

    /// The objects to look at because of an event.
    fn concerned(&self, state: &State, event: &Event) -> Vec<Key>;

    /// All objects to look at, when it is not known what happened.
    fn everything(&self, state: &State) -> Vec<Key>;

    /// Makes true what an object promises.
    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()>;

    /// When an object is to be looked at again though nothing happens.
    fn due(&self, _: &State, _: &Key) -> Option<OffsetDateTime> {
        None
    }
}

fn all() -> Vec<Arc<dyn Controller>> {
    vec![
        Arc::new(namespaces::Namespaces),
        Arc::new(garbage::Garbage),
        Arc::new(service_accounts::ServiceAccounts),
        Arc::new(ip_addresses::IpAddresses),
        Arc::new(endpoint_slices::EndpointSlices),
        Arc::new(endpoints::Endpoints),
        Arc::new(replica_set::ReplicaSets),
        Arc::new(deployment::Deployments),
    ]
}

/// Starts all controllers. They stop when the set is dropped.
pub(crate) fn start(api: &Arc<Api>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for controller in all() {
        tasks.spawn(follow(api.clone(), controller));
    }
    tasks
}

async fn follow(api: Arc<Api>, controller: Arc<dyn Controller>) {
    let mut revisions = api.store.revisions();
    let mut at = None;
    let mut due: BTreeMap<Key, OffsetDateTime> = BTreeMap::new();
    loop {
        revisions.borrow_and_update();
        let state = api.store.state();
        let mut keys = match at.and_then(|at| concerned(&state, at, controller.as_ref())) {
            Some(keys) => keys,
            None => controller.everything(&state).into_iter().collect(),
        };
        at = Some(state.revision());
        let now = OffsetDateTime::now_utc();
        keys.extend(due.iter().filter(|(_, moment)| **moment <= now).map(|(key, _)| key.clone()));
        let keys: Vec<Key> = keys.into_iter().collect();
        for batch in keys.chunks(BATCH) {
            look_at(&api, &controller, batch.to_vec()).await;
            note_due(&mut due, &api.store.state(), controller.as_ref(), batch);
        }
        tokio::select! {
            changed = revisions.changed() => if changed.is_err() { return },
            () = reach(due.values().min().copied()) => {}
        }
    }
}

/// Notes when objects that were looked at are due again.
fn note_due(due: &mut BTreeMap<Key, OffsetDateTime>, state: &State, controller: &dyn Controller, keys: &[Key]) {
    // What could not be done now is not tried at once again.
    let soonest = OffsetDateTime::now_utc() + PAUSE;
    for key in keys {
        match controller.due(state, key) {
            Some(moment) => _ = due.insert(key.clone(), moment.max(soonest)),
            None => _ = due.remove(key),
        }
    }
}

/// Waits for a moment, or for ever.
async fn reach(moment: Option<OffsetDateTime>) {
    match moment {
        None => std::future::pending().await,
        Some(moment) => tokio::time::sleep((moment - OffsetDateTime::now_utc()).try_into().unwrap_or_default()).await,
    }
}

/// The objects that what happened since a revision concerns; none if that is not known any more.
fn concerned(state: &State, at: u64, controller: &dyn Controller) -> Option<BTreeSet<Key>> {
    let mut keys = BTreeSet::new();
    let storages: BTreeSet<u8> = ALL.iter().map(|resource| resource.storage).collect();
    for storage in storages {
        for event in state.events_after(storage, at)? {
            keys.extend(controller.concerned(state, event));
        }
    }
    Some(keys)
}

async fn look_at(api: &Arc<Api>, controller: &Arc<dyn Controller>, keys: Vec<Key>) {
    let (ranges, worker) = (api.ranges.clone(), controller.clone());
    let done = api.store.change(move |draft| {
        for key in &keys {
            // What goes wrong with one object leaves the others alone.
            if let Err(failure) = draft.attempt(|draft| worker.reconcile(draft, &ranges, key)) {
                tracing::debug!(controller = worker.name(), name = %key.name, cause = failure.message, "an object could not be reconciled");
            }
        }
        Ok(())
    });
    if let Err(failure) = done.await {
        tracing::warn!(controller = controller.name(), cause = failure.message, "changes could not be made; the next event tries again");
    }
}

/// The keys of all objects of a resource.
fn keys_of(state: &State, resource: &super::resource::Resource) -> Vec<Key> {
    state.list(resource, None, None).map(|stored| stored.key.clone()).collect()
}

/// The reference by which an object names the one that controls it.
fn controller_reference(resource: &super::resource::Resource, owner: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// The uid of whoever controls an object.
fn controller_uid(document: &serde_json::Value) -> Option<&str> {
    let owners = super::document::list(document, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner["controller"] == serde_json::Value::Bool(true))?["uid"].as_str()
}
