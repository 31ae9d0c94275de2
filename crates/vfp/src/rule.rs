//! A rule, and its place in a program.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::action::Action;
use crate::condition::Conditions;

/// A rule as it is to be.
#[derive(Clone, Debug, PartialEq)]
#[repr(C)]
pub struct RuleSpec {
    /// What happens to packets. It comes first because packets need it.
    pub action: Action,
    /// What it is known by in its group.
    pub name: String,
    /// Its precedence: a lower number is looked at first. Among equals, the one that was there first.
    pub priority: u16,
    /// Which packets.
    pub conditions: Conditions,
}

impl RuleSpec {
    /// A rule.
    pub fn new(name: impl Into<String>, priority: u16, conditions: Conditions, action: Action) -> Self {
        Self { name: name.into(), priority, conditions, action }
    }
}

/// A rule that is in force, by a number that is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

impl RuleId {
    /// No rule.
    pub const NONE: Self = Self(0);
}

/// Where a rule stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The port or domain it belongs to.
    pub owner: String,
    /// The layer.
    pub layer: String,
    /// The group.
    pub group: String,
    /// The rule.
    pub rule: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.layer, self.group, self.rule)
    }
}

/// A rule in force, with its counters. What packets need of it comes first, so that they touch one or two lines of memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Rule {
    packets: AtomicU64,
    bytes: AtomicU64,
    pub(crate) id: RuleId,
    pub(crate) spec: RuleSpec,
    pub(crate) place: Place,
}

impl Rule {
    pub(crate) fn count(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Gives rules their numbers and finds them again.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    last: u32,
    /// At how many it looks which of them are still in force.
    tidy_at: usize,
    rules: HashMap<RuleId, Weak<Rule>>,
}

impl Registry {
    pub(crate) fn register(&mut self, place: Place, spec: RuleSpec) -> Arc<Rule> {
        self.last = self.last.wrapping_add(1).max(1);
        let id = RuleId(self.last);
        // Rules that change one at a time leave their old selves behind.
        if self.rules.len() >= self.tidy_at {
            self.tidy();
            self.tidy_at = 2 * self.rules.len().max(1024);
        }
        let rule = Arc::new(Rule { id, place, spec, packets: AtomicU64::new(0), bytes: AtomicU64::new(0) });
        self.rules.insert(id, Arc::downgrade(&rule));
        rule
    }

    pub(crate) fn get(&self, id: RuleId) -> Option<Arc<Rule>> {
        self.rules.get(&id)?.upgrade()
    }

    /// Forgets the rules that are no longer in force.
    pub(crate) fn tidy(&mut self) {
        self.rules.retain(|_, rule| rule.strong_count() > 0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Rule>> + '_ {
        self.rules.values().filter_map(Weak::upgrade)
    }
}
