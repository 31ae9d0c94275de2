//! A Kubernetes namespace that is being deleted takes what is in it along.

use std::sync::Arc;

use serde_json::json;

use super::{Controller, keys_of};
use crate::server::allocation::Ranges;
use crate::server::document::child;
use crate::server::operation::{DeleteOptions, delete_in, finish_if_done};
use crate::server::resource::{ALL, NAMESPACES};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};

pub(super) struct Namespaces;

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespaces"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        let around = match key.storage == NAMESPACES.storage {
            true => key.clone(),
            false => Key::new(&NAMESPACES, "", &key.namespace),
        };
        state.get(&around).filter(|stored| stored.is_deleting).map(|stored| stored.key.clone()).into_iter().collect()
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &NAMESPACES)
    }

    fn reconcile(&self, draft: &mut Draft, _: &Ranges, key: &Key) -> Result<()> {
        let Some(stored) = draft.state.get(key).cloned().filter(|stored| stored.is_deleting) else { return Ok(()) };
        for resource in ALL.iter().filter(|resource| resource.namespaced && resource.view.is_none()) {
            let before = draft.state.clone();
            let inside: Vec<Arc<Stored>> = before.list(resource, Some(&key.name), None).cloned().collect();
            for object in inside.iter().filter(|object| !object.is_deleting) {
                delete_in(draft, resource, object, &DeleteOptions::default())?;
            }
        }
        let is_empty = ALL
            .iter()
            .filter(|resource| resource.namespaced)
            .all(|resource| draft.state.list(resource, Some(&key.name), None).next().is_none());
        if is_empty {
            let mut document = stored.document();
            child(&mut document, "spec").insert("finalizers".into(), json!([]));
            let stored = draft.put(&NAMESPACES, key, document)?;
            finish_if_done(draft, &NAMESPACES, &stored);
        }
        Ok(())
    }
}
