//! Which VLAN endpoints are in.

use hcn::Guid;
use hcn::endpoint::Endpoint;
use hns::compile::{self, Site};

use super::Chassis;
use crate::vswitchd::error::Error;

impl Chassis {
    /// Where an endpoint is to be true: where its network is, or in a VLAN there, which it joins.
    pub(super) fn site_of(&mut self, document: &Endpoint) -> Result<(Site, Option<(String, u16)>), Error> {
        let network = self.networks.get(&document.network);
        let network = network.ok_or_else(|| Error::Message(format!("the endpoint's network {} is not there", document.network)))?;
        let vlan = if network.mode.has_vlans() { compile::vlan::of(document, &network.document)? } else { None };
        let (Some(id), Some(name)) = (vlan, &network.interface) else { return Ok((network.site.clone(), None)) };
        let adapter = self.adapters.get_mut(name).ok_or_else(|| Error::Message(format!("the adapter {name} is gone")))?;
        let vlan = adapter.vlan(id, &self.switch, &mut self.workers)?;
        let joined = vlan.join(document.id, &network.document, &network.site, &self.switch);
        let place = Some((name.clone(), id));
        match joined {
            Ok(site) => Ok((site, place)),
            Err(error) => {
                self.settle_vlan(document.id, place);
                Err(error)
            }
        }
    }

    /// Notes the VLAN that an endpoint has joined, and takes it out of the one before. What is not attached stays in none.
    pub(super) fn settle_vlan(&mut self, id: Guid, joined: Option<(String, u16)>) {
        let Some(state) = self.endpoints.get_mut(&id) else { return };
        let kept = joined.clone().filter(|_| state.is_attached());
        let before = std::mem::replace(&mut state.vlan, kept.clone());
        for (adapter, number) in before.into_iter().chain(joined).filter(|left| Some(left) != kept.as_ref()) {
            if let Some(adapter) = self.adapters.get_mut(&adapter) {
                adapter.leave_vlan(number, id, &self.switch, &mut self.workers);
            }
        }
    }
}
