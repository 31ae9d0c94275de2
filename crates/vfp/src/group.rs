//! A group: rules of which the first that matches decides.

use std::collections::HashMap;
use std::sync::Arc;

use crate::action::Action;
use crate::classify::{Classifier, Ranked, Subject};
use crate::rule::{Place, Registry, Rule, RuleSpec};

/// A group as it is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSpec {
    /// What it is known by in its layer.
    pub name: String,
    /// Its rules.
    pub rules: Vec<RuleSpec>,
}

/// Which of a domain's groups a rule goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Neighbour messages from NICs.
    NeighbourOut,
    /// Neighbour messages from uplinks and tunnels.
    NeighbourIn,
    /// Packets from NICs.
    ForwardOut,
    /// Packets from uplinks and tunnels.
    ForwardIn,
}

impl Stage {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::NeighbourOut, Self::NeighbourIn, Self::ForwardOut, Self::ForwardIn];

    /// The name of the layer and group that people see.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::NeighbourOut => ("neighbour", "from-nic"),
            Self::NeighbourIn => ("neighbour", "from-wire"),
            Self::ForwardOut => ("forward", "from-nic"),
            Self::ForwardIn => ("forward", "from-wire"),
        }
    }
}

/// A group in force.
#[derive(Debug, Default)]
pub(crate) struct Group {
    rules: HashMap<String, Arc<Rule>>,
    classifier: Classifier,
}

impl Group {
    pub(crate) fn build(spec: &GroupSpec, place: &Place, registry: &mut Registry) -> Self {
        let mut group = Self::default();
        let rules: Vec<Arc<Rule>> = spec.rules.iter().map(|rule| registry.register(located(place, rule), rule.clone())).collect();
        group.classifier = Classifier::build(&rules);
        group.rules = rules.into_iter().map(|rule| (rule.spec.name.clone(), rule)).collect();
        group
    }

    /// Adds a rule, or replaces the one of that name. A rule that is there already as it should be is left alone, with its
    /// counters.
    pub(crate) fn put(&mut self, place: &Place, spec: RuleSpec, registry: &mut Registry) -> bool {
        if self.rules.get(&spec.name).is_some_and(|rule| rule.spec == spec) {
            return false;
        }
        self.remove(&spec.name);
        let rule = registry.register(located(place, &spec), spec);
        self.classifier.insert(rule.clone());
        self.rules.insert(rule.spec.name.clone(), rule);
        true
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Rule>> {
        self.rules.get(name)
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        match self.rules.remove(name) {
            Some(rule) => {
                self.classifier.remove(&rule);
                true
            }
            None => false,
        }
    }

    /// Whether packets that differ from this one in their source port alone may be decided about differently.
    pub(crate) fn asks_source_port(&self, subject: &Subject) -> bool {
        self.classifier.asks_source_port(subject)
    }

    /// The rule that decides about a packet. Rules that only count are counted on the way.
    pub(crate) fn find(&self, subject: &Subject, counting: &mut impl FnMut(&Arc<Rule>)) -> Option<&Arc<Rule>> {
        let mut after = None;
        loop {
            let Ranked { rank, rule } = self.classifier.find(subject, after)?;
            if !matches!(rule.spec.action, Action::Count) {
                return Some(rule);
            }
            counting(rule);
            after = Some(*rank);
        }
    }
}

fn located(place: &Place, rule: &RuleSpec) -> Place {
    Place { rule: rule.name.clone(), ..place.clone() }
}
