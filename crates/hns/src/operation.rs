//! What callers ask for, done on a draft of the state.
//!
//! A draft is a copy of the state that an operation may change as it likes: if the operation fails, or its batch does
//! not reach the disk, the draft is dropped and nothing has happened. One file is one kind of object.

pub(crate) mod attachment;
pub(crate) mod endpoint;
pub(crate) mod guest_network_service;
pub(crate) mod load_balancer;
pub(crate) mod namespace;
pub(crate) mod network;
pub(crate) mod policy;
pub(crate) mod route;
pub(crate) mod schema;

use std::sync::Arc;

use hcn::Guid;
use hcn::api::Kind;
use hcn::error::{Error, detail};
use hcn::event::{self, Event};
use serde_json::{Value, json};

use crate::build::Build;
use crate::events::Hub;
use crate::journal::Change;
use crate::machine::Machine;
use crate::record::{Inside, Record, Stored};
use crate::state::State;
use crate::switch::Switch;

/// What operations need to know of the world.
pub(crate) struct World {
    pub build: Build,
    pub machine: Arc<dyn Machine>,
    pub hub: Arc<Hub>,
    pub switch: Arc<dyn Switch>,
}

/// A state in the making, with the changes and events that led to it.
pub(crate) struct Draft<'a> {
    pub state: State,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
    pub world: &'a World,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: State, world: &'a World) -> Self {
        Self { state, changes: Vec::new(), events: Vec::new(), world }
    }

    /// Puts a new object in.
    pub(crate) fn insert<T: Stored>(&mut self, document: T, inside: Inside) {
        let sequence = self.state.next_sequence;
        self.note(T::KIND, event::Change::Created, &document);
        self.put(Record { document, inside: Inside { sequence, ..inside } });
    }

    /// Puts a changed object in.
    pub(crate) fn update<T: Stored>(&mut self, record: Record<T>) {
        self.note(T::KIND, event::Change::Modified, &record.document);
        self.put(record);
    }

    fn put<T: Stored>(&mut self, mut record: Record<T>) {
        record.inside.revision = self.state.next_revision;
        record.inside.updated = self.world.machine.now_filetime();
        let record = T::wrap(Arc::new(record));
        self.state.put(record.clone());
        self.changes.push(Change::Put(record));
    }

    /// Takes an object out.
    pub(crate) fn remove<T: Stored>(&mut self, document: &T) {
        self.note(T::KIND, event::Change::Deleted, document);
        self.state.remove(T::KIND, document.id());
        self.changes.push(Change::Remove(T::KIND, document.id()));
    }

    /// Notes what happened, to be told when it is durable.
    pub(crate) fn note<T: Stored>(&mut self, kind: Kind, change: event::Change, document: &T) {
        self.events.push(event(kind, change, document));
    }

    /// Tells at once what is about to happen, whether or not it then does.
    pub(crate) fn announce<T: Stored>(&self, change: event::Change, document: &T) {
        self.world.hub.publish(event(T::KIND, change, document));
    }

    /// The id of a new object: the document's, else the caller's, else a new one.
    pub(crate) fn new_id(&self, in_document: Guid, given: Option<Guid>) -> Guid {
        [in_document, given.unwrap_or_default()].into_iter().find(|id| !id.is_nil()).unwrap_or_else(Guid::new_v4)
    }
}

fn event<T: Stored>(kind: Kind, change: event::Change, document: &T) -> Event {
    // Followers of one network need to know whose endpoint it was, also when it is gone.
    let data = match document.network().is_nil() {
        true => Value::Null,
        false => json!({"HostComputeNetwork": document.network().to_string()}),
    };
    Event { sequence: 0, kind: Some(kind), change, id: document.id(), name: document.name().to_owned(), flags: document.flags(), data }
}

/// The error for an id that an object of the same kind has.
fn id_taken(kind: Kind, id: Guid) -> Error {
    let noun = kind.collection().trim_end_matches('s');
    Error::ObjectAlreadyExists(
        detail(format!("a {noun} with the id {id} exists")).field("ID").remedy("leave the id out, or delete the old object"),
    )
}

/// The error for a modify request that this kind of object does not know.
fn unsupported(what: impl Into<String>, remedy: &str) -> Error {
    Error::RequestUnsupported(detail(what).remedy(remedy))
}
