//! Networks: adapters, domains, tunnels and gateways as their modes need them.

use std::net::IpAddr;

use hcn::Guid;
use hcn::network::Network;
use hcn::policy::Policy;
use hns::compile::network::{Mode, Overlay};
use hns::compile::{self, Site};
use ipnet::IpNet;

use super::Chassis;
use super::installed::Installed;
use crate::vswitchd::adapter::Adapter;
use crate::vswitchd::error::Error;
use crate::vswitchd::gateway::Gateway;

/// A network that is made true.
pub(super) struct NetworkState {
    pub(super) document: Network,
    pub(super) mode: Mode,
    /// The adapter it is on, by the machine's name.
    pub(super) interface: Option<String>,
    pub(super) site: Site,
    rules: Installed,
    host_routes: Vec<IpNet>,
    tunnel: Option<(IpAddr, u16)>,
    pub(super) gateway: Option<Gateway>,
    /// What the endpoints were compiled with.
    compiled: Option<Basis>,
}

/// All that endpoints take from their network.
#[derive(Clone, PartialEq)]
struct Basis {
    site: Site,
    /// The subnets, each with its VLAN.
    subnets: Vec<(IpNet, Option<u16>)>,
    overlay: Option<Overlay>,
    policies: Vec<Policy>,
}

impl NetworkState {
    fn basis(&self) -> Result<Basis, Error> {
        let first = self.site.adapter.as_ref().and_then(|adapter| adapter.addresses.first()).map(IpNet::addr);
        let overlay = match self.mode {
            Mode::Overlay => Some(compile::network::overlay(&self.document, first)?),
            _ => None,
        };
        Ok(Basis {
            site: self.site.clone(),
            subnets: compile::vlan::subnets(&self.document)?,
            overlay,
            policies: compile::network::for_endpoints(&self.document),
        })
    }
}

impl Chassis {
    pub(super) fn put_network(&mut self, document: Network, interface: Option<String>) -> Result<(), Error> {
        let id = document.id;
        let mode = Mode::of(&document)?;
        let moved = |state: &NetworkState| state.mode != mode || (interface.is_some() && state.interface != interface);
        if self.networks.get(&id).is_some_and(moved) {
            self.remove_network(id)?;
        }
        if !self.networks.contains_key(&id) {
            self.make_network(&document, mode, interface)?;
        }
        if let Some(state) = self.networks.get_mut(&id) {
            state.document = document;
        }
        self.refresh_network(id).inspect_err(|_| self.forget_if_new(id))
    }

    /// A network whose first rules could not be made is not there at all.
    fn forget_if_new(&mut self, id: Guid) {
        let has_endpoints = self.endpoints.values().any(|endpoint| endpoint.document.network == id);
        if !has_endpoints && let Err(error) = self.remove_network(id) {
            tracing::warn!(%id, %error, "what was begun of a network could not be undone");
        }
    }

    fn make_network(&mut self, document: &Network, mode: Mode, interface: Option<String>) -> Result<(), Error> {
        let id = document.id;
        let interface = interface.filter(|_| mode.has_adapter());
        if mode.has_adapter() {
            let name = interface.as_deref().ok_or_else(|| {
                let label = compile::network::label(document);
                Error::Message(format!(
                    "the network {label:?} is bound to no interface of this machine; name one with `transom hnsd --adapter NAME=INTERFACE`"
                ))
            })?;
            self.adapter(name)?.networks.insert(id);
        }
        let domain = mode.has_domain().then(|| self.switch.add_domain(compile::network::domain(document, mode)));
        let adapter = interface.as_deref().and_then(|name| self.adapters.get(name)).map(|adapter| adapter.site.clone());
        let services = mode.has_services().then(|| self.switch.add_table(&compile::network::label(document)));
        let site = Site { domain, adapter, tunnel: None, services, gateway: None, limits: Vec::new(), defects: Vec::new() };
        let state = NetworkState {
            document: document.clone(),
            mode,
            interface,
            site,
            rules: Installed::default(),
            host_routes: Vec::new(),
            tunnel: None,
            gateway: None,
            compiled: None,
        };
        self.networks.insert(id, state);
        Ok(())
    }

    /// The adapter with this name, taken over if it is not yet.
    fn adapter(&mut self, interface: &str) -> Result<&mut Adapter, Error> {
        if !self.adapters.contains_key(interface) {
            let adapter = Adapter::take(interface, &self.switch, &mut self.workers, &self.options)?;
            self.adapters.insert(interface.to_owned(), adapter);
        }
        self.adapters.get_mut(interface).ok_or_else(|| Error::Message(format!("the adapter {interface} is gone")))
    }

    /// Compiles a network and its endpoints anew, and puts in force what differs.
    pub(in crate::vswitchd) fn refresh_network(&mut self, id: Guid) -> Result<(), Error> {
        let Some(mut state) = self.networks.remove(&id) else { return Ok(()) };
        let outcome = self.refresh_state(&mut state);
        let basis = state.basis();
        // Most changes of a network, such as a new route to another node, are nothing to its endpoints.
        let same = outcome.is_ok() && basis.as_ref().is_ok_and(|basis| state.compiled.as_ref() == Some(basis));
        state.compiled = basis.ok();
        self.networks.insert(id, state);
        outcome?;
        if same {
            return Ok(());
        }
        self.refresh_balancers_in(id);
        let endpoints: Vec<Guid> =
            self.endpoints.values().filter(|endpoint| endpoint.document.network == id).map(|endpoint| endpoint.document.id).collect();
        endpoints.into_iter().try_for_each(|endpoint| self.refresh_endpoint(endpoint))
    }

    fn refresh_state(&mut self, state: &mut NetworkState) -> Result<(), Error> {
        (state.site.limits, state.site.defects) = (self.limits.clone(), self.defects.clone());
        if let Some(name) = &state.interface {
            let adapter = self.adapters.get_mut(name).ok_or_else(|| Error::Message(format!("the adapter {name} is gone")))?;
            state.site.adapter = Some(adapter.site.clone());
        }
        match state.mode {
            Mode::Overlay => self.refresh_tunnel(state)?,
            Mode::Transparent => {
                if let Some(adapter) = state.interface.as_ref().and_then(|name| self.adapters.get_mut(name)) {
                    adapter.set_transparent(state.document.id, true, &self.switch)?;
                }
            }
            Mode::Nat | Mode::Internal => self.refresh_gateway(state)?,
            Mode::L2Bridge | Mode::L2Tunnel => {
                let foreign = compile::source_mac_address::wanted(&state.document)?.is_some();
                if let Some(adapter) = state.interface.as_ref().and_then(|name| self.adapters.get_mut(name)) {
                    adapter.set_foreign(state.document.id, foreign)?;
                }
            }
            Mode::Private => {}
        }
        state.rules.replace(&self.switch, &state.site, compile::network::rules(&state.document, &state.site)?)?;
        self.refresh_routes(state)
    }

    fn refresh_tunnel(&mut self, state: &mut NetworkState) -> Result<(), Error> {
        let (Some(name), Some(domain)) = (state.interface.clone(), state.site.domain) else { return Ok(()) };
        let first = state.site.adapter.as_ref().and_then(|adapter| adapter.addresses.first()).map(IpNet::addr);
        let Overlay { port, provider, .. } = compile::network::overlay(&state.document, first)?;
        let at = (IpAddr::from(provider), port);
        if state.tunnel.is_some_and(|before| before != at) {
            self.leave_tunnel(state)?;
        }
        let Some(adapter) = self.adapters.get_mut(&name) else { return Ok(()) };
        let tunnel = adapter.tunnel(at, &self.switch, &mut self.workers)?;
        state.tunnel = Some(at);
        state.site.tunnel = Some(tunnel.port);
        let label = compile::network::label(&state.document);
        compile::network::vnis(&state.document).into_iter().try_for_each(|vni| tunnel.lead(vni, &label, domain, &self.switch))
    }

    fn leave_tunnel(&mut self, state: &mut NetworkState) -> Result<(), Error> {
        let (Some(at), Some(name), Some(domain)) = (state.tunnel.take(), &state.interface, state.site.domain) else {
            return Ok(());
        };
        let Some(adapter) = self.adapters.get_mut(name) else { return Ok(()) };
        let Some(tunnel) = adapter.tunnels.get_mut(&at) else { return Ok(()) };
        match tunnel.leave(domain, &self.switch)? {
            true => adapter.close_tunnel(at, &self.switch, &mut self.workers),
            false => Ok(()),
        }
    }

    fn refresh_gateway(&mut self, state: &mut NetworkState) -> Result<(), Error> {
        let Some(domain) = state.site.domain else { return Ok(()) };
        if state.gateway.is_none() {
            state.gateway = Some(Gateway::open(&state.document, domain, &self.switch, &mut self.workers)?);
        }
        let Some(gateway) = &mut state.gateway else { return Ok(()) };
        state.site.gateway = Some((gateway.port, gateway.mac));
        let endpoints = self.endpoints.values().filter(|endpoint| endpoint.document.network == state.document.id && endpoint.is_attached());
        let mut mappings = Vec::new();
        for endpoint in endpoints {
            mappings.extend(compile::port_mapping::mappings(&endpoint.document)?);
        }
        gateway.refresh(&state.document, state.mode, &mappings)
    }

    /// Port mappings of a network's endpoints have changed.
    pub(super) fn refresh_mappings(&mut self, network: Guid) -> Result<(), Error> {
        let Some(mut state) = self.networks.remove(&network) else { return Ok(()) };
        let outcome = if state.gateway.is_some() { self.refresh_gateway(&mut state) } else { Ok(()) };
        self.networks.insert(network, state);
        outcome
    }

    fn refresh_routes(&mut self, state: &mut NetworkState) -> Result<(), Error> {
        let Some(adapter) = state.interface.as_ref().and_then(|name| self.adapters.get_mut(name)) else {
            return Ok(());
        };
        let after = compile::network::host_routes(&state.document, &state.site)?;
        adapter.want_routes(&state.host_routes, &after)?;
        state.host_routes = after;
        if matches!(state.mode, Mode::L2Bridge | Mode::Overlay) {
            adapter.forward();
        }
        Ok(())
    }

    pub(super) fn remove_network(&mut self, id: Guid) -> Result<(), Error> {
        let orphans: Vec<Guid> =
            self.endpoints.values().filter(|endpoint| endpoint.document.network == id).map(|endpoint| endpoint.document.id).collect();
        orphans.into_iter().try_for_each(|endpoint| self.remove_endpoint(endpoint))?;
        let Some(mut state) = self.networks.remove(&id) else { return Ok(()) };
        state.rules.remove(&self.switch);
        self.leave_tunnel(&mut state)?;
        if let Some(gateway) = state.gateway.take() {
            gateway.close(&self.switch, &mut self.workers);
        }
        if let Some(domain) = state.site.domain {
            self.switch.remove_domain(domain)?;
        }
        if let Some(services) = state.site.services {
            self.switch.remove_table(services)?;
        }
        self.refresh_balancers_in(id);
        self.leave_adapter(&state)
    }

    fn leave_adapter(&mut self, state: &NetworkState) -> Result<(), Error> {
        let Some(name) = &state.interface else { return Ok(()) };
        let Some(adapter) = self.adapters.get_mut(name) else { return Ok(()) };
        adapter.want_routes(&state.host_routes, &[])?;
        if state.mode == Mode::Transparent {
            adapter.set_transparent(state.document.id, false, &self.switch)?;
        }
        adapter.set_foreign(state.document.id, false)?;
        adapter.networks.remove(&state.document.id);
        if !adapter.networks.is_empty() {
            return Ok(());
        }
        match self.adapters.remove(name) {
            Some(adapter) => adapter.give_back(&self.switch, &mut self.workers),
            None => Ok(()),
        }
    }

    /// An adapter has changed: its networks follow.
    pub(in crate::vswitchd) fn refresh_adapter(&mut self, name: &str) {
        let Some(adapter) = self.adapters.get_mut(name) else { return };
        let before = adapter.site.clone();
        if let Err(error) = adapter.refresh(&self.switch) {
            tracing::warn!(adapter = name, %error, "the node's vNIC could not follow its adapter");
            if matches!(error, Error::Takeover(host::uplink::TakeoverError::NoAdapter(_))) {
                self.lose_adapter(name);
            }
            return;
        }
        if adapter.site == before {
            return;
        }
        let networks: Vec<Guid> = adapter.networks.iter().copied().collect();
        for id in networks {
            if let Err(error) = self.refresh_network(id) {
                tracing::warn!(%id, %error, "a network could not follow its adapter");
            }
        }
    }
}
