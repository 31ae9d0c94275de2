//! Tables: groups that many ports share.
//!
//! A node may have tens of thousands of services, and each of its ports asks for all of them. They are kept once; a layer names the
//! table, and asks it after its own groups.

use crate::group::Group;
use crate::rule::{Place, Registry, RuleSpec};

/// A table, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// The layer and group that people see.
const NAMES: (&str, &str) = ("service", "table");

/// A table in force.
#[derive(Debug, Default)]
pub(crate) struct SharedTable {
    name: String,
    pub(crate) group: Group,
}

impl SharedTable {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), group: Group::default() }
    }

    /// Adds a rule, or replaces the one of that name. Whether that changes anything.
    pub(crate) fn put(&mut self, rule: RuleSpec, registry: &mut Registry) -> bool {
        let (layer, group) = NAMES;
        let place = Place { owner: self.name.clone(), layer: layer.to_owned(), group: group.to_owned(), rule: String::new() };
        self.group.put(&place, rule, registry)
    }
}
