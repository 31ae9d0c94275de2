//! The state that an operation may change as it likes. If it fails, the draft goes back to what it was.

use std::sync::Arc;

use serde_json::Value;

use super::history::{Event, EventKind};
use super::state::{Key, State, Stored};
use crate::server::document::metadata;
use crate::server::resource::Resource;
use crate::server::status::{Failure, Result};

/// The largest object, as etcd would take it.
const LARGEST_OBJECT: usize = 1_572_864;

/// The next state in the making.
pub(crate) struct Draft {
    pub(crate) state: State,
    pub(super) events: Vec<Arc<Event>>,
    /// Whether nothing of this happens: an object then shows the version it has, or none.
    is_rehearsal: bool,
    /// Whether history is to begin after this.
    pub(super) has_forgotten: bool,
}

/// Where a draft can go back to.
pub(super) struct Mark {
    state: State,
    events: usize,
    has_forgotten: bool,
}

impl Draft {
    pub(super) fn new(state: State) -> Self {
        Self { state, events: Vec::new(), is_rehearsal: false, has_forgotten: false }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { state: self.state.clone(), events: self.events.len(), has_forgotten: self.has_forgotten }
    }

    pub(super) fn go_back(&mut self, mark: Mark) {
        self.state = mark.state;
        self.events.truncate(mark.events);
        self.has_forgotten = mark.has_forgotten;
    }

    /// The object at a key.
    pub(crate) fn get(&self, resource: &Resource, key: &Key) -> Result<Arc<Stored>> {
        self.state.get(key).cloned().ok_or_else(|| Failure::not_found(resource, &key.name))
    }

    /// Runs a part of an operation that may fail by itself, leaving no trace then.
    pub(crate) fn attempt<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let mark = self.mark();
        let outcome = operation(self);
        if outcome.is_err() {
            self.go_back(mark);
        }
        outcome
    }

    /// Puts a document in, as a new object or in place of the one there. Returns what is stored now.
    pub(crate) fn put(&mut self, resource: &Resource, key: &Key, mut document: Value) -> Result<Arc<Stored>> {
        let previous = self.state.get(key).cloned();
        let revision = self.state.revision() + 1;
        strip_type(&mut document);
        if let Some(previous) = &previous {
            // What changes nothing is no change: it has no revision and nobody hears of it.
            metadata(&mut document).insert("resourceVersion".into(), previous.revision.to_string().into());
            if previous.document() == document {
                return Ok(previous.clone());
            }
        }
        metadata(&mut document).insert("resourceVersion".into(), revision.to_string().into());
        if self.is_rehearsal {
            match &previous {
                Some(previous) => _ = metadata(&mut document).insert("resourceVersion".into(), previous.revision.to_string().into()),
                None => _ = metadata(&mut document).shift_remove("resourceVersion"),
            }
        }
        let stored = Arc::new(Stored::new(resource, key.clone(), &document, revision));
        if stored.bytes.len() > LARGEST_OBJECT {
            return Err(Failure::too_large(format!(
                "the object has {} bytes, and at most {LARGEST_OBJECT} are stored",
                stored.bytes.len()
            )));
        }
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        self.happen(Event::new(kind, previous, stored.clone()));
        Ok(stored)
    }

    /// Takes an object away. Returns it as it was, with the revision of its end.
    pub(crate) fn remove(&mut self, resource: &Resource, stored: &Arc<Stored>) -> Arc<Stored> {
        let last = Arc::new(stored.at_revision(resource, self.state.revision() + 1));
        self.happen(Event::new(EventKind::Deleted, Some(stored.clone()), last.clone()));
        last
    }

    /// Takes an object away with a change that nobody gets to see but the caller: followers hear of the object as it was.
    pub(crate) fn finish(&mut self, resource: &Resource, stored: &Arc<Stored>, mut document: Value) -> Arc<Stored> {
        strip_type(&mut document);
        metadata(&mut document).insert("resourceVersion".into(), stored.revision.to_string().into());
        self.remove(resource, stored);
        Arc::new(Stored::new(resource, stored.key.clone(), &document, stored.revision))
    }

    /// Whether nothing of this is going to happen.
    pub(crate) fn is_rehearsal(&self) -> bool {
        self.is_rehearsal
    }

    /// Makes what happened so far a beginning that nobody can follow.
    pub(crate) fn forget_past(&mut self) {
        self.has_forgotten = true;
    }

    fn happen(&mut self, event: Event) {
        let event = Arc::new(event);
        self.state.apply(event.clone());
        self.events.push(event);
    }
}

/// Runs an operation; with `dry_run` its outcome is told and nothing has happened.
pub(crate) fn put_off<T>(draft: &mut Draft, dry_run: bool, operation: impl FnOnce(&mut Draft) -> Result<T>) -> Result<T> {
    let mark = dry_run.then(|| draft.mark());
    draft.is_rehearsal = dry_run;
    let outcome = operation(draft);
    draft.is_rehearsal = false;
    if let Some(mark) = mark {
        draft.go_back(mark);
    }
    outcome
}

/// Takes away what follows from where an object is.
fn strip_type(document: &mut Value) {
    let map = crate::server::document::as_map(document);
    map.shift_remove("kind");
    map.shift_remove("apiVersion");
}
