//! Load balancers: rules in tables that the ports of one origin share.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use hcn::Guid;
use hcn::load_balancer::LoadBalancer;
use hns::compile::NODE_ALIASES;
use hns::compile::load_balancer::{self, NodePort, Origin, Place, Surroundings};
use hns::compile::network::Mode;
use hns::profile::Limit;
use vfp::{RuleSpec, TableId};
use wire::Ip;

use super::Chassis;
use super::installed::Installed;
use super::network::NetworkState;
use crate::vswitchd::error::Error;

/// A load balancer that is made true.
pub(super) struct BalancerState {
    document: LoadBalancer,
    /// The rules that are in force for it.
    rules: HashSet<(TableId, String)>,
    /// The networks on which its source address is answered for.
    sources: BTreeSet<(Guid, Ip)>,
}

/// An address that is nobody's NIC, on one network: somebody must answer for it where backends ask.
#[derive(Default)]
pub(super) struct Source {
    /// The load balancers that use it.
    owners: BTreeSet<Guid>,
    rules: Installed,
}

impl Chassis {
    pub(super) fn put_balancer(&mut self, document: LoadBalancer) -> Result<(), Error> {
        let id = document.id;
        let before = self.balancers.get_mut(&id).map(|state| std::mem::replace(&mut state.document, document.clone()));
        match before {
            Some(before) => self.unlink_backends(&before),
            None => {
                self.balancers.insert(id, BalancerState { document: document.clone(), rules: HashSet::new(), sources: BTreeSet::new() });
            }
        }
        for endpoint in &document.endpoints {
            self.balancers_of.entry(*endpoint).or_default().insert(id);
        }
        self.refresh_balancer(id)
    }

    pub(super) fn remove_balancer(&mut self, id: Guid) {
        let Some(mut state) = self.balancers.remove(&id) else { return };
        self.unlink_backends(&state.document);
        self.replace_rules(&mut state, Vec::new());
        state.sources.iter().for_each(|source| self.leave_source(*source, id));
        self.node_ports_changed |= state.document.frontend_vips.is_empty();
    }

    fn unlink_backends(&mut self, document: &LoadBalancer) {
        for endpoint in &document.endpoints {
            if let Some(balancers) = self.balancers_of.get_mut(endpoint) {
                balancers.remove(&document.id);
                if balancers.is_empty() {
                    self.balancers_of.remove(endpoint);
                }
            }
        }
    }

    /// An endpoint has come, gone or changed: load balancers that lead to it follow, if that is anything to them. Thousands may lead to one.
    pub(super) fn refresh_balancers_of(&mut self, endpoint: Guid) {
        let place = self.place_of(endpoint).unwrap_or_default();
        if let Some(state) = self.endpoints.get_mut(&endpoint) {
            if state.place == place {
                return;
            }
            state.place = place;
        }
        let balancers: Vec<Guid> = self.balancers_of.get(&endpoint).into_iter().flatten().copied().collect();
        self.refresh_balancers(balancers);
    }

    /// A network has changed: its load balancers follow.
    pub(super) fn refresh_balancers_in(&mut self, network: Guid) {
        let concerns = |state: &&BalancerState| state.document.network == network || state.document.network.is_nil();
        let balancers: Vec<Guid> = self.balancers.values().filter(concerns).map(|state| state.document.id).collect();
        self.refresh_balancers(balancers);
    }

    fn refresh_balancers(&mut self, balancers: Vec<Guid>) {
        for id in balancers {
            if let Err(error) = self.refresh_balancer(id) {
                tracing::warn!(%id, %error, "a load balancer could not follow");
            }
        }
    }

    /// Compiles a load balancer anew, and puts in force what differs.
    fn refresh_balancer(&mut self, id: Guid) -> Result<(), Error> {
        let Some(mut state) = self.balancers.remove(&id) else { return Ok(()) };
        let outcome = self.compile_balancer(&state.document).map(|rules| self.replace_rules(&mut state, rules));
        let answered = self.refresh_sources(&mut state);
        self.node_ports_changed |= state.document.frontend_vips.is_empty();
        self.balancers.insert(id, state);
        outcome.and(answered)
    }

    /// The networks that a load balancer is on: that of its backends, or all of them.
    fn networks_of(&self, document: &LoadBalancer) -> impl Iterator<Item = &NetworkState> {
        let network = document.network;
        self.networks.values().filter(move |state| network.is_nil() || state.document.id == network)
    }

    fn compile_balancer(&self, document: &LoadBalancer) -> Result<Vec<(TableId, RuleSpec)>, Error> {
        let places = self.places(document)?;
        let aliases = NODE_ALIASES.map(Ip::from);
        let mut rules = Vec::new();
        for network in self.networks_of(document) {
            let (Some(adapter), Some(pods)) = (&network.site.adapter, network.site.services) else { continue };
            let node: Vec<Ip> = adapter.node_addresses().collect();
            let prefixes = hns::compile::network::prefixes(&network.document)?;
            let around = Surroundings {
                mode: network.mode,
                prefixes: &prefixes,
                node: &node,
                aliases: &aliases,
                pool: adapter.pool,
                domain: network.site.domain,
                underlay: matches!(network.mode, Mode::L2Bridge | Mode::L2Tunnel).then_some(adapter.underlay),
                limits: &network.site.limits,
                defects: &network.site.defects,
            };
            let tables = [(Origin::Pod, pods), (Origin::Node, adapter.node_services), (Origin::Outside, adapter.outside_services)];
            for (origin, table) in tables {
                let compiled = load_balancer::rules(document, &places, origin, &around)?;
                rules.extend(compiled.into_iter().map(|rule| (table, rule)));
            }
        }
        Ok(rules)
    }

    /// The backends that packets can reach now.
    fn places(&self, document: &LoadBalancer) -> Result<Vec<Place>, Error> {
        document.endpoints.iter().filter_map(|id| self.place_of(*id).transpose()).collect()
    }

    /// An endpoint as a backend, if packets can reach it now.
    fn place_of(&self, id: Guid) -> Result<Option<Place>, Error> {
        let Some(endpoint) = self.endpoints.get(&id) else { return Ok(None) };
        let local = !endpoint.document.is_remote();
        if local && !endpoint.is_attached() {
            return Ok(None);
        }
        let addresses = hns::compile::endpoint::addresses(&endpoint.document)?;
        Ok(Some(Place { id, addresses, local }))
    }

    /// Puts rules in force and takes those away that are no more wanted. New ones come first, so that there is no gap.
    fn replace_rules(&self, state: &mut BalancerState, rules: Vec<(TableId, RuleSpec)>) {
        let wanted: HashSet<(TableId, String)> = rules.iter().map(|(table, rule)| (*table, rule.name.clone())).collect();
        let tables: BTreeSet<TableId> = wanted.iter().chain(&state.rules).map(|(table, _)| *table).collect();
        let mut rules: Vec<(TableId, Option<RuleSpec>)> = rules.into_iter().map(|(table, rule)| (table, Some(rule))).collect();
        for table in tables {
            let own = rules.iter_mut().filter(|(at, _)| *at == table).filter_map(|(_, rule)| rule.take());
            // A table goes with its network or adapter, and then its rules have gone too.
            _ = self.switch.put_table_rules(table, own);
            let gone = state.rules.difference(&wanted).filter(|(at, _)| *at == table).map(|(_, name)| name.as_str());
            _ = self.switch.remove_table_rules(table, gone);
        }
        state.rules = wanted;
    }

    fn refresh_sources(&mut self, state: &mut BalancerState) -> Result<(), Error> {
        let id = state.document.id;
        let wanted: BTreeSet<(Guid, Ip)> = match state.document.source_vip.parse::<IpAddr>() {
            Ok(source) => self.networks_of(&state.document).map(|network| (network.document.id, Ip::from(source))).collect(),
            Err(_) => BTreeSet::new(),
        };
        let before = std::mem::replace(&mut state.sources, wanted.clone());
        before.difference(&wanted).for_each(|source| self.leave_source(*source, id));
        wanted.into_iter().try_for_each(|(network, address)| {
            let Some(network) = self.networks.get(&network) else { return Ok(()) };
            let source = self.sources.entry((network.document.id, address)).or_default();
            source.owners.insert(id);
            source.rules.replace(&self.switch, &network.site, load_balancer::answers(address, &network.document, &network.site)?)
        })
    }

    fn leave_source(&mut self, at: (Guid, Ip), balancer: Guid) {
        let Some(source) = self.sources.get_mut(&at) else { return };
        source.owners.remove(&balancer);
        if source.owners.is_empty() {
            source.rules.remove(&self.switch);
            self.sources.remove(&at);
        }
    }

    /// Leads what nodes send to their own node ports to the switch, once for many changes.
    pub(super) fn refresh_node_ports(&mut self) {
        if !std::mem::take(&mut self.node_ports_changed) {
            return;
        }
        let mut wanted: BTreeMap<&str, BTreeSet<NodePort>> = self.adapters.keys().map(|name| (name.as_str(), BTreeSet::new())).collect();
        for state in self.balancers.values().filter(|state| state.document.frontend_vips.is_empty()) {
            for network in self.networks_of(&state.document).filter(|network| !network.site.has(Limit::NodePortNotFromNode)) {
                let ports = network.interface.as_deref().and_then(|name| wanted.get_mut(name));
                ports.into_iter().for_each(|ports| ports.extend(load_balancer::node_ports(&state.document)));
            }
        }
        let wanted: Vec<(String, BTreeSet<NodePort>)> = wanted.into_iter().map(|(name, ports)| (name.to_owned(), ports)).collect();
        for (name, ports) in wanted {
            let Some(adapter) = self.adapters.get_mut(&name) else { continue };
            if let Err(error) = adapter.set_node_ports(ports) {
                tracing::warn!(adapter = name, %error, "the node does not reach its own node ports");
                self.node_ports_changed = true;
            }
        }
    }
}
