//! Port mappings of endpoints that the switch itself leads in: each is a load balancer with one backend.

use std::collections::BTreeSet;

use hcn::Guid;
use hcn::endpoint::Endpoint;
use hns::compile;

use super::Chassis;
use crate::vswitchd::error::Error;

impl Chassis {
    /// Puts the mappings of an endpoint in force, and takes those of before away that it has no more.
    pub(super) fn lead_in(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let has_services = self.networks.get(&endpoint.network).is_some_and(|network| network.mode.has_services());
        let wanted = if has_services { compile::port_mapping::balancers(endpoint)? } else { Vec::new() };
        let ids: BTreeSet<Guid> = wanted.iter().map(|balancer| balancer.id).collect();
        self.replace_led_in(endpoint.id, ids);
        wanted.into_iter().try_for_each(|balancer| self.put_balancer(balancer))
    }

    /// Takes the mappings of an endpoint away.
    pub(super) fn lead_nothing_in(&mut self, endpoint: Guid) {
        self.replace_led_in(endpoint, BTreeSet::new());
    }

    fn replace_led_in(&mut self, endpoint: Guid, ids: BTreeSet<Guid>) {
        let Some(state) = self.endpoints.get_mut(&endpoint) else { return };
        let before = std::mem::replace(&mut state.led_in, ids.clone());
        before.difference(&ids).for_each(|id| self.remove_balancer(*id));
    }
}
