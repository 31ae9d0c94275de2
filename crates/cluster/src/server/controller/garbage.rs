//! Objects go with their owners.
//!
//! Deleted in the background, an owner is gone first and its dependents follow. In the foreground the owner waits for them.
//! Orphaned, they forget it.

use std::sync::Arc;

use serde_json::Value;

use super::Controller;
use crate::server::allocation::Ranges;
use crate::server::document::{list, metadata, text};
use crate::server::operation::{DeleteOptions, delete_in, put_or_finish};
use crate::server::resource::{self, Resource};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};

pub(super) struct Garbage;

impl Controller for Garbage {
    fn name(&self) -> &'static str {
        "garbage collector"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let current = &event.current;
        let owners = current.owners.iter().chain(event.previous.iter().flat_map(|previous| &previous.owners));
        let waiting = owners.filter_map(|uid| state.with_uid(uid)).filter(|owner| owner.is_deleting).map(|owner| owner.key.clone());
        let mut keys: Vec<Key> = waiting.collect();
        match event.is_removal() {
            true => keys.extend(state.dependents(&current.uid).map(|dependent| dependent.key.clone())),
            false if !current.owners.is_empty() || current.is_deleting => keys.push(current.key.clone()),
            false => {}
        }
        keys
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        let of_interest = state.all().filter(|stored| !stored.owners.is_empty() || stored.is_deleting);
        of_interest.map(|stored| stored.key.clone()).collect()
    }

    fn reconcile(&self, draft: &mut Draft, _: &Ranges, key: &Key) -> Result<()> {
        let (Some(resource), Some(stored)) = (resource::stored_as(key.storage), draft.state.get(key).cloned()) else { return Ok(()) };
        let document = stored.document();
        let has = |finalizer: &str| list(&document, "/metadata/finalizers").iter().any(|present| present == finalizer);
        if stored.is_deleting && has("orphan") {
            release_dependents(draft, &stored)?;
            return drop_finalizer(draft, resource, &stored, "orphan");
        }
        if stored.is_deleting && has("foregroundDeletion") {
            return match delete_dependents(draft, &stored)? {
                true => Ok(()),
                false => drop_finalizer(draft, resource, &stored, "foregroundDeletion"),
            };
        }
        match stored.is_deleting {
            true => Ok(()),
            false => look_for_owners(draft, resource, &stored, document),
        }
    }
}

fn dependents(draft: &Draft, owner: &Stored) -> Vec<Arc<Stored>> {
    draft.state.dependents(&owner.uid).cloned().collect()
}

/// Takes the reference to an owner out of everything that has one.
fn release_dependents(draft: &mut Draft, owner: &Stored) -> Result<()> {
    for dependent in dependents(draft, owner) {
        if let Some(resource) = resource::stored_as(dependent.key.storage) {
            let mut document = dependent.document();
            keep_owners(&mut document, |reference| text(reference, "/uid") != &*owner.uid);
            draft.put(resource, &dependent.key, document)?;
        }
    }
    Ok(())
}

fn keep_owners(document: &mut Value, keep: impl Fn(&Value) -> bool) {
    let meta = metadata(document);
    if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
        owners.retain(keep);
        if owners.is_empty() {
            meta.shift_remove("ownerReferences");
        }
    }
}

/// Deletes what depends on an owner. Returns whether the owner has to wait for some of it.
fn delete_dependents(draft: &mut Draft, owner: &Stored) -> Result<bool> {
    for dependent in dependents(draft, owner) {
        if let Some(resource) = resource::stored_as(dependent.key.storage).filter(|_| !dependent.is_deleting) {
            let options = DeleteOptions { propagation: Some("foregroundDeletion"), ..DeleteOptions::default() };
            delete_in(draft, resource, &dependent, &options)?;
        }
    }
    let blocks = |dependent: &Arc<Stored>| {
        let document = dependent.document();
        list(&document, "/metadata/ownerReferences")
            .iter()
            .any(|reference| text(reference, "/uid") == &*owner.uid && reference["blockOwnerDeletion"] == Value::Bool(true))
    };
    Ok(dependents(draft, owner).iter().any(blocks))
}

fn drop_finalizer(draft: &mut Draft, resource: &Resource, stored: &Arc<Stored>, finalizer: &str) -> Result<()> {
    let mut document = stored.document();
    if let Some(Value::Array(finalizers)) = metadata(&mut document).get_mut("finalizers") {
        finalizers.retain(|present| present != finalizer);
        if finalizers.is_empty() {
            metadata(&mut document).shift_remove("finalizers");
        }
    }
    put_or_finish(draft, resource, stored, document).map(drop)
}

/// Deletes an object all of whose owners are gone. An owner of a kind that is not known here counts as present.
fn look_for_owners(draft: &mut Draft, resource: &Resource, stored: &Arc<Stored>, mut document: Value) -> Result<()> {
    let is_present = |reference: &Value| {
        let is_known = resource::of_kind(text(reference, "/apiVersion"), text(reference, "/kind")).is_some();
        !is_known || draft.state.with_uid(text(reference, "/uid")).is_some()
    };
    let owners = list(&document, "/metadata/ownerReferences");
    let present = owners.iter().filter(|owner| is_present(owner)).count();
    if owners.is_empty() || present == owners.len() {
        return Ok(());
    }
    if present == 0 {
        let options = DeleteOptions { uid: Some(stored.uid.to_string()), ..DeleteOptions::default() };
        return delete_in(draft, resource, stored, &options).map(drop);
    }
    let state = draft.state.clone();
    keep_owners(&mut document, |reference| state.with_uid(text(reference, "/uid")).is_some());
    draft.put(resource, &stored.key, document).map(drop)
}
