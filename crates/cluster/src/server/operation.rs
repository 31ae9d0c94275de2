//! What can be done with objects. One file is one verb.

mod create;
mod delete;
mod list;
mod metadata;
mod patch;
mod read;
mod scale;
mod token;
mod update;
mod watch;

use std::sync::Arc;

use serde_json::Value;

use super::allocation::Ranges;
use super::resource::Resource;
use super::store::{Store, Stored};

pub(crate) use create::{bind, create, create_in};
pub(crate) use delete::{DeleteOptions, delete, delete_collection, delete_in, put_or_finish};
pub(crate) use list::{ListOptions, Listed, list};
pub(crate) use patch::patch;
pub(crate) use read::get;
pub(crate) use scale::scale_of;
pub(crate) use token::request_token;
pub(crate) use update::{Part, update};
pub(crate) use watch::{Render, WatchOptions, Watcher};

/// What operations work on.
pub(crate) struct Api {
    pub(crate) store: Store,
    pub(crate) ranges: Arc<Ranges>,
}

/// What an operation answers with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An object, with the status code.
    Object(u16, Arc<Stored>),
    /// Any other document.
    Document(u16, Value),
    List(Listed),
}

/// An object as its clients see it: with its type, in the shape of their version.
pub(crate) fn shown(resource: &Resource, stored: &Stored) -> Value {
    let mut document = stored.document();
    if let Some(view) = resource.view {
        (view.outward)(&mut document);
    }
    typed(resource, document)
}

/// A document with its type before the rest.
pub(crate) fn typed(resource: &Resource, document: Value) -> Value {
    let mut map = serde_json::Map::new();
    map.insert("kind".into(), resource.kind.into());
    map.insert("apiVersion".into(), resource.api_version().into());
    if let Value::Object(rest) = document {
        map.extend(rest.into_iter().filter(|(key, _)| key != "kind" && key != "apiVersion"));
    }
    Value::Object(map)
}
