//! All objects as one persistent value: a copy shares everything with its original until one of the two changes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde_json::Value;

use super::history::{Event, History};
use crate::server::document::{list, text, texts};
use crate::server::resource::Resource;

/// Where an object is: the number of its storage, its Kubernetes namespace (empty for objects that have none), its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) storage: u8,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Key {
    pub(crate) fn new(resource: &Resource, namespace: &str, name: &str) -> Self {
        let namespace = if resource.namespaced { namespace } else { "" };
        Self { storage: resource.storage, namespace: namespace.into(), name: name.into() }
    }
}

/// The labels of an object, in the order of their keys. Most have few, and a map would cost every object half a kilobyte.
#[derive(Debug, Default)]
pub(crate) struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether others have all of these.
    pub(crate) fn are_among(&self, others: &Self) -> bool {
        self.0.iter().all(|(key, value)| others.get(key) == Some(&**value))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(labels: T) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        labels.sort();
        Self(labels.into())
    }
}

/// An object at rest: its text, and what lists and selectors ask of it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    /// The document without `kind` and `apiVersion`, which follow from where it is.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) revision: u64,
    pub(crate) uid: Box<str>,
    pub(crate) labels: Labels,
    /// The labels of the pods that a Service is for. Which Services a pod concerns is asked whenever one changes.
    pub(crate) selector: Labels,
    /// The fields that selectors of this resource may name.
    pub(crate) fields: Box<[(&'static str, Box<str>)]>,
    /// What no other object may have at the same time, such as an address.
    pub(crate) claims: Box<[Box<str>]>,
    /// The uids of its owners.
    pub(crate) owners: Box<[Box<str>]>,
    pub(crate) is_deleting: bool,
}

impl Stored {
    /// Puts a document to rest. Its `resourceVersion` is that of `revision`.
    pub(crate) fn new(resource: &Resource, key: Key, document: &Value, revision: u64) -> Self {
        Self {
            // A text that grew has room to spare, which nothing here will ever use.
            bytes: document.to_string().into_boxed_str().into_boxed_bytes(),
            revision,
            uid: text(document, "/metadata/uid").into(),
            labels: texts(document, "/metadata/labels").collect(),
            selector: texts(document, "/spec/selector").collect(),
            fields: (resource.fields)(document).into_iter().map(|(name, value)| (name, value.into())).collect(),
            claims: (resource.claims)(document).into_iter().map(Into::into).collect(),
            owners: list(document, "/metadata/ownerReferences").iter().map(|owner| text(owner, "/uid").into()).collect(),
            is_deleting: document.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string),
            key,
        }
    }

    /// The document, without `kind` and `apiVersion`.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The same object as of another revision.
    pub(crate) fn at_revision(&self, resource: &Resource, revision: u64) -> Self {
        let mut document = self.document();
        crate::server::document::metadata(&mut document).insert("resourceVersion".into(), revision.to_string().into());
        Self::new(resource, self.key.clone(), &document, revision)
    }
}

/// An entry of an index: an object, in the order of a part of itself. An index of these repeats nothing of the objects.
macro_rules! index_entry {
    ($(#[$doc:meta])* $name:ident, $part:ty, $of:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        struct $name(Arc<Stored>);

        impl Borrow<$part> for $name {
            fn borrow(&self) -> &$part {
                let of: fn(&Stored) -> &$part = $of;
                of(&self.0)
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                Borrow::<$part>::borrow(self).cmp(other.borrow())
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Ordering::Equal
            }
        }

        impl Eq for $name {}
    };
}

index_entry!(
    /// An object by where it is.
    ByKey, Key, |stored| &stored.key
);
index_entry!(
    /// An object by its uid.
    ByUid, str, |stored| &stored.uid
);

/// Everything the server knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    revision: u64,
    objects: OrdSet<ByKey>,
    claims: OrdMap<Box<str>, Key>,
    uids: OrdSet<ByUid>,
    dependents: OrdMap<(Box<str>, Key), ()>,
    histories: OrdMap<u8, History>,
    /// Nothing is known of what happened up to here.
    floor: u64,
}

impl State {
    /// The number of the last change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn set_floor(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
        self.revision = self.revision.max(revision);
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key).map(|entry| &entry.0)
    }

    /// Who has a claim.
    pub(crate) fn claimant(&self, claim: &str) -> Option<&Key> {
        self.claims.get(claim)
    }

    /// The object with a uid.
    pub(crate) fn with_uid(&self, uid: &str) -> Option<&Arc<Stored>> {
        self.uids.get(uid).map(|entry| &entry.0)
    }

    /// The objects that name a uid as their owner.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let first = (Box::from(uid), Key { storage: 0, namespace: "".into(), name: "".into() });
        let owner: Box<str> = uid.into();
        let keys = self.dependents.range(first..).map(|(key, ())| key).take_while(move |key| key.0 == owner);
        keys.filter_map(|key| self.get(&key.1))
    }

    /// Every object.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.iter().map(|entry| &entry.0)
    }

    /// The objects of a resource in a Kubernetes namespace, or in all, in order, those after a key.
    pub(crate) fn list(&self, resource: &Resource, namespace: Option<&str>, after: Option<Key>) -> impl Iterator<Item = &Arc<Stored>> {
        let first = Key { storage: resource.storage, namespace: namespace.unwrap_or_default().into(), name: "".into() };
        let from = after.map_or(Bound::Included(first), Bound::Excluded);
        let storage = resource.storage;
        let namespace: Option<Arc<str>> = namespace.map(Into::into);
        let here = move |key: &Key| key.storage == storage && namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace);
        let found = self.objects.range::<_, Key>((from, Bound::Unbounded));
        found.map(|entry| &entry.0).take_while(move |stored| here(&stored.key))
    }

    /// What happened to a resource after a revision; none if that is not known any more.
    pub(crate) fn events_after(&self, storage: u8, revision: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        static NONE: std::sync::LazyLock<History> = std::sync::LazyLock::new(History::default);
        let history = self.histories.get(&storage).unwrap_or(&NONE);
        (revision >= self.oldest(storage)).then(|| history.after(revision))
    }

    /// The objects of a storage as they were at a revision: what happened since is undone. None if that is not known any more.
    pub(crate) fn as_of(&self, storage: u8, revision: u64) -> Option<Self> {
        if revision > self.revision {
            return None;
        }
        let since: Vec<&Arc<Event>> = self.events_after(storage, revision)?.collect();
        let mut past = self.clone();
        for event in since.into_iter().rev() {
            match &event.previous {
                Some(previous) => past.put(previous.clone()),
                None => past.remove(&event.current.key),
            }
        }
        past.revision = revision;
        Some(past)
    }

    /// The lowest revision from which a resource can be followed.
    pub(crate) fn oldest(&self, storage: u8) -> u64 {
        self.floor.max(self.histories.get(&storage).map_or(0, History::forgotten))
    }

    /// Takes in what an event says.
    pub(super) fn apply(&mut self, event: Arc<Event>) {
        self.revision = self.revision.max(event.revision);
        let key = &event.current.key;
        match event.is_removal() {
            true => self.remove(key),
            false => self.put(event.current.clone()),
        }
        self.histories.entry(key.storage).or_default().push(event);
    }

    pub(super) fn put(&mut self, stored: Arc<Stored>) {
        if let Some(ByKey(previous)) = self.objects.insert(ByKey(stored.clone())) {
            self.forget_parts(&previous);
        }
        let key = &stored.key;
        for claim in &stored.claims {
            self.claims.insert(claim.clone(), key.clone());
        }
        for owner in &stored.owners {
            self.dependents.insert((owner.clone(), key.clone()), ());
        }
        self.uids.insert(ByUid(stored));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(ByKey(stored)) = self.objects.remove(key) {
            self.forget_parts(&stored);
        }
    }

    /// Takes an object out of what is found by a part of it.
    fn forget_parts(&mut self, stored: &Stored) {
        for claim in &stored.claims {
            self.claims.remove(claim);
        }
        for owner in &stored.owners {
            self.dependents.remove(&(owner.clone(), stored.key.clone()));
        }
        self.uids.remove(&*stored.uid);
    }
}
