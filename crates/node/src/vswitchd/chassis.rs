//! What documents ask for, made true: ports, rules, NICs.
//!
//! The chassis remembers every document it was given with its revision, so that whoever programs it can find out what it has.

mod endpoint;
pub(super) mod installed;
mod load_balancer;
mod namespace;
mod network;
mod port_mapping;
mod vlan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hcn::Guid;
use hcn::api::Kind;
use hns::profile::{Defect, Limit};
use vfp::{PortId, Switch};
use wire::Ip;

use super::Options;
use super::adapter::Adapter;
use super::api::{ApplyRequest, HeldObject, OrderMessage};
use super::closer::Closer;
use super::data_path::DataPathReport;
use super::error::Error;
use super::offload::KernelOffload;
use super::resolver::Event;
use super::worker::{Shared, Workers};
use endpoint::EndpointState;
use load_balancer::{BalancerState, Source};
use namespace::NamespaceState;
use network::NetworkState;

/// Everything vswitchd has made.
pub(super) struct Chassis {
    options: Options,
    switch: Arc<Switch>,
    pub(super) workers: Workers,
    /// The kernel's table of flows, if there is one.
    kernel: Option<Arc<KernelOffload>>,
    pub(super) data_path: DataPathReport,
    closer: Closer,
    limits: Vec<Limit>,
    defects: Vec<Defect>,
    held: BTreeMap<(Kind, Guid), u64>,
    /// Why each object could not be made true last time.
    complaints: HashMap<Guid, String>,
    instance: Guid,
    /// How often something was lost that had been made, which whoever programs the switch has to be told.
    losses: u64,
    pub(super) adapters: BTreeMap<String, Adapter>,
    networks: HashMap<Guid, NetworkState>,
    endpoints: HashMap<Guid, EndpointState>,
    namespaces: HashMap<Guid, NamespaceState>,
    balancers: HashMap<Guid, BalancerState>,
    /// Which load balancers lead to an endpoint.
    balancers_of: HashMap<Guid, BTreeSet<Guid>>,
    /// Who answers for source addresses of load balancers, by network, and for whose sake.
    sources: HashMap<(Guid, Ip), Source>,
    /// Whether ports of the node may have changed.
    node_ports_changed: bool,
}

/// Takes the lock. Whoever panicked with it left a chassis whose parts are each whole; hnsd finds out what is missing.
pub(super) fn lock(chassis: &Arc<Mutex<Chassis>>) -> MutexGuard<'_, Chassis> {
    chassis.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T: hcn::Field>(document: serde_json::Value) -> hcn::error::Result<T> {
    T::read(document, &hcn::Path::Root)
}

impl Chassis {
    pub(super) fn new(
        options: Options,
        switch: Arc<Switch>,
        workers: Workers,
        kernel: Option<Arc<KernelOffload>>,
        data_path: DataPathReport,
    ) -> Self {
        Self {
            data_path,
            options,
            switch,
            workers,
            kernel,
            closer: Closer::default(),
            limits: Vec::new(),
            defects: Vec::new(),
            held: BTreeMap::new(),
            complaints: HashMap::new(),
            instance: Guid::new_v4(),
            losses: 0,
            adapters: BTreeMap::new(),
            networks: HashMap::new(),
            endpoints: HashMap::new(),
            namespaces: HashMap::new(),
            balancers: HashMap::new(),
            balancers_of: HashMap::new(),
            sources: HashMap::new(),
            node_ports_changed: false,
        }
    }

    /// What workers and views need.
    pub(super) fn shared(&self) -> Shared {
        self.workers.shared.clone()
    }

    /// Which vswitchd this is, and which state of it: where it loses something, it is another one from then on.
    pub(super) fn instance(&self) -> String {
        format!("{}/{}", self.instance, self.losses)
    }

    /// The NIC of a port is gone: what it was for counts as not there, so that it is asked for again.
    pub(super) fn nic_failed(&mut self, port: PortId) {
        let adapter = self.adapters.iter().find(|(_, adapter)| adapter.has_port(port)).map(|(name, _)| name.clone());
        if let Some(name) = adapter {
            self.lose_adapter(&name);
        } else if let Some(id) = self.endpoint_at(port) {
            self.detach(id);
            self.held.remove(&(Kind::Endpoint, id));
        }
        self.losses += 1;
    }

    /// A link is gone: if it was the switch's end of a NIC, the NIC went with its namespace.
    pub(super) fn link_gone(&mut self, index: u32) {
        if let Some(port) = self.port_behind(index) {
            self.nic_failed(port);
        }
    }

    /// An adapter is gone, and with it the networks on it.
    fn lose_adapter(&mut self, name: &str) {
        let Some(adapter) = self.adapters.get(name) else { return };
        tracing::warn!(adapter = name, "the adapter is gone; its networks wait for it to come back");
        let networks: Vec<Guid> = adapter.networks.iter().copied().collect();
        for id in networks {
            let endpoints: Vec<Guid> =
                self.endpoints.values().filter(|endpoint| endpoint.document.network == id).map(|endpoint| endpoint.document.id).collect();
            for endpoint in endpoints {
                self.let_go(endpoint);
                self.held.remove(&(Kind::Endpoint, endpoint));
            }
            self.held.remove(&(Kind::Network, id));
            if let Err(error) = self.remove_network(id) {
                tracing::debug!(%id, %error, "a network went with its adapter");
            }
        }
        self.losses += 1;
    }

    /// Every object with the number of the change that made it so.
    pub(super) fn inventory(&self) -> Vec<HeldObject> {
        let object =
            |((kind, id), revision): (&(Kind, Guid), &u64)| HeldObject { kind: kind.name().to_owned(), id: *id, revision: *revision };
        self.held.iter().map(object).collect()
    }

    /// Does what the orders say, each by itself.
    pub(super) fn apply(&mut self, request: ApplyRequest) -> Vec<Option<String>> {
        self.follow_build(&request);
        let settled = request.settled;
        let answers = request.orders.into_iter().map(|order| self.try_one(order)).collect();
        self.refresh_node_ports();
        if settled {
            // It takes neighbours, which are the resolver's. One that is told so much that it cannot listen will be told again.
            _ = self.workers.shared.events().try_send(Event::Settled);
        }
        answers
    }

    /// All is there that was there before: what the kernel has forwarded while vswitchd was away becomes ours.
    pub(super) fn adopt_flows(&self) {
        let Some(kernel) = &self.kernel else { return };
        let Some(previous) = kernel.table().take_previous() else { return };
        let now = self.workers.shared.now();
        let (adopted, known) = kernel.adopt(&previous, |opened| self.switch.adopt(now, opened));
        // Only now do our own programs have their turn.
        let nics = self.endpoints.values().flat_map(EndpointState::programmed);
        let adapters = self.adapters.values().flat_map(Adapter::programmed).map(str::to_owned);
        nics.chain(adapters).for_each(|link| kernel.table().relieve(&link, &previous));
        tracing::info!(adopted, known, "connections that the kernel has kept go on");
    }

    /// Does what one order says, or answers why not.
    fn try_one(&mut self, order: OrderMessage) -> Option<String> {
        let (kind, id) = (order.kind.clone(), order.id);
        let cause = match self.apply_one(order) {
            Ok(()) => {
                self.complaints.remove(&id);
                return None;
            }
            Err(error) => error.to_string(),
        };
        // Whoever asked asks again every second; what stays the same is said once.
        if self.complaints.insert(id, cause.clone()).as_ref() != Some(&cause) {
            tracing::warn!(kind, %id, error = cause, "an order could not be done");
        }
        Some(cause)
    }

    /// The build that hnsd runs as decides what the rules leave out. Where it changed, everything is compiled anew.
    fn follow_build(&mut self, request: &ApplyRequest) {
        let limits: Vec<Limit> =
            Limit::ALL.iter().copied().filter(|limit| request.limits.iter().any(|name| name == limit.name())).collect();
        let defects: Vec<Defect> =
            Defect::ALL.iter().copied().filter(|defect| request.defects.iter().any(|name| name == defect.name())).collect();
        if (&limits, &defects) == (&self.limits, &self.defects) {
            return;
        }
        (self.limits, self.defects) = (limits, defects);
        let networks: Vec<Guid> = self.networks.keys().copied().collect();
        for id in networks {
            if let Err(error) = self.refresh_network(id) {
                tracing::warn!(%id, %error, "a network could not be compiled for the new build");
            }
        }
    }

    fn apply_one(&mut self, order: OrderMessage) -> Result<(), Error> {
        let kind = Kind::from_name(&order.kind).ok_or_else(|| Error::Message(format!("{:?} is no kind of object", order.kind)))?;
        let Some(revision) = order.revision else {
            self.remove(kind, order.id)?;
            self.held.remove(&(kind, order.id));
            return Ok(());
        };
        let document = order.document.ok_or_else(|| Error::Message(format!("the order for {} has no Document", order.id)))?;
        let unreadable = |error: hcn::Error| Error::Message(format!("the document of {} cannot be read: {error}", order.id));
        // Until it is done, the object counts as not there, so that it is asked for again.
        self.held.remove(&(kind, order.id));
        match kind {
            Kind::Network => self.put_network(read(document).map_err(unreadable)?, order.interface)?,
            Kind::Endpoint => self.put_endpoint(read(document).map_err(unreadable)?)?,
            Kind::Namespace => self.put_namespace(read(document).map_err(unreadable)?)?,
            Kind::LoadBalancer => self.put_balancer(read(document).map_err(unreadable)?)?,
            Kind::Route | Kind::GuestNetworkService => {}
        }
        self.held.insert((kind, order.id), revision);
        Ok(())
    }

    fn remove(&mut self, kind: Kind, id: Guid) -> Result<(), Error> {
        match kind {
            Kind::Network => self.remove_network(id),
            Kind::Endpoint => self.remove_endpoint(id),
            Kind::Namespace => self.remove_namespace(id),
            Kind::LoadBalancer => {
                self.remove_balancer(id);
                Ok(())
            }
            Kind::Route | Kind::GuestNetworkService => Ok(()),
        }
    }

    /// Gives adapters back and stops moving packets. NICs of endpoints stay, for the next one to take up.
    pub(super) fn shut_down(&mut self) {
        for (name, adapter) in std::mem::take(&mut self.adapters) {
            if let Err(error) = adapter.give_back(&self.switch, &mut self.workers) {
                tracing::warn!(adapter = name, %error, "an adapter could not be given back");
            }
        }
        self.networks.clear();
        self.workers.stop();
    }
}
