//! Rules of a document that are in force, so that a change replaces what differs and nothing else.

use std::collections::BTreeSet;

use hns::compile::{AdapterSite, Placed, Realm, Site};
use vfp::{DomainId, Stage, Switch};

use crate::vswitchd::error::Error;

/// The rules of one document.
#[derive(Debug, Default)]
pub(in crate::vswitchd) struct Installed {
    rules: BTreeSet<(DomainId, Stage, String)>,
}

/// Where the rules of a realm go.
pub(in crate::vswitchd) fn domain(realm: Realm, own: Option<DomainId>, adapter: Option<&AdapterSite>) -> Option<DomainId> {
    match realm {
        Realm::Own => own,
        Realm::Wire => adapter.map(|adapter| adapter.wire_domain),
        Realm::Host => adapter.map(|adapter| adapter.host_domain),
    }
}

impl Installed {
    /// Puts these rules in force, and takes away those of before that are not among them.
    pub(in crate::vswitchd) fn replace(&mut self, switch: &Switch, site: &Site, rules: Vec<Placed>) -> Result<(), Error> {
        self.replace_at(switch, rules, |realm| domain(realm, site.domain, site.adapter.as_ref()))
    }

    /// As [`Self::replace`], with another way to find the domain of a realm.
    pub(in crate::vswitchd) fn replace_at(
        &mut self,
        switch: &Switch,
        rules: Vec<Placed>,
        domain: impl Fn(Realm) -> Option<DomainId>,
    ) -> Result<(), Error> {
        let mut after = BTreeSet::new();
        for Placed { realm, stage, rule } in rules {
            let Some(domain) = domain(realm) else { continue };
            after.insert((domain, stage, rule.name.clone()));
            switch.put_rules(domain, [(stage, rule)])?;
        }
        for (domain, stage, name) in self.rules.difference(&after) {
            // A domain that is gone has taken its rules along.
            _ = switch.remove_rules(*domain, [(*stage, name.as_str())]);
        }
        self.rules = after;
        Ok(())
    }

    /// Takes all of them away.
    pub(in crate::vswitchd) fn remove(&mut self, switch: &Switch) {
        for (domain, stage, name) in std::mem::take(&mut self.rules) {
            _ = switch.remove_rules(domain, [(stage, name.as_str())]);
        }
    }
}
