//! All objects of one kind, found by id, by name and by network, and listed in the order of their creation.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hcn::Guid;
use imbl::{OrdMap, OrdSet};

use crate::record::{Record, Stored};

/// The objects of one kind. A copy shares everything with the original until one of them changes.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    by_id: OrdMap<Guid, Arc<Record<T>>>,
    in_order: OrdMap<u64, Guid>,
    by_name: OrdSet<(Arc<str>, u64, Guid)>,
    by_network: OrdSet<(Guid, u64, Guid)>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { by_id: OrdMap::new(), in_order: OrdMap::new(), by_name: OrdSet::new(), by_network: OrdSet::new() }
    }
}

impl<T: Stored> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn get(&self, id: Guid) -> Option<&Arc<Record<T>>> {
        self.by_id.get(&id)
    }

    pub(crate) fn contains(&self, id: Guid) -> bool {
        self.by_id.contains_key(&id)
    }

    /// All objects, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Record<T>>> {
        self.in_order.values().filter_map(|id| self.by_id.get(id))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Guid> {
        self.in_order.values().copied()
    }

    /// The objects with exactly this name, oldest first.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = Guid> {
        let name: Arc<str> = name.into();
        self.by_name.range(numbers((name.clone(), 0, Guid::nil()), (name, u64::MAX, Guid::max()))).map(|(_, _, id)| *id)
    }

    /// The objects of a network, oldest first.
    pub(crate) fn of_network(&self, network: Guid) -> impl Iterator<Item = Guid> {
        self.by_network.range(numbers((network, 0, Guid::nil()), (network, u64::MAX, Guid::max()))).map(|(_, _, id)| *id)
    }

    /// Puts an object in, in place of an older one with the same id.
    pub(crate) fn put(&mut self, record: Arc<Record<T>>) {
        let id = record.document.id();
        self.remove(id);
        let sequence = record.inside.sequence;
        self.in_order.insert(sequence, id);
        self.by_name.insert((record.document.name().into(), sequence, id));
        if !record.document.network().is_nil() {
            self.by_network.insert((record.document.network(), sequence, id));
        }
        self.by_id.insert(id, record);
    }

    pub(crate) fn remove(&mut self, id: Guid) -> Option<Arc<Record<T>>> {
        let record = self.by_id.remove(&id)?;
        let sequence = record.inside.sequence;
        self.in_order.remove(&sequence);
        self.by_name.remove(&(record.document.name().into(), sequence, id));
        self.by_network.remove(&(record.document.network(), sequence, id));
        Some(record)
    }
}

fn numbers<T>(first: T, last: T) -> RangeInclusive<T> {
    first..=last
}
