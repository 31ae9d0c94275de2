//! Everything the service knows, as one value.
//!
//! A state is never changed by more than one thread and never seen half-changed: the writer copies it (copies share
//! their parts), changes the copy, and publishes it. The indexes are not stored; they follow from the records.

mod addresses;
mod frontends;

use std::sync::Arc;

use hcn::Guid;
use hcn::api::Kind;
use hcn::endpoint::Endpoint;
use hcn::guest_network_service::GuestNetworkService;
use hcn::load_balancer::LoadBalancer;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::route::SdnRoute;
use imbl::{OrdMap, OrdSet};

pub(crate) use addresses::{AddressError, Addresses};
pub(crate) use frontends::{Frontend, HostPort, frontends_of, host_port, host_ports_of, ports_belong_to};

use crate::record::{AnyRecord, Record};
use crate::table::Table;

/// Everything the service knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub networks: Table<Network>,
    pub endpoints: Table<Endpoint>,
    pub namespaces: Table<Namespace>,
    pub load_balancers: Table<LoadBalancer>,
    pub routes: Table<SdnRoute>,
    pub guest_network_services: Table<GuestNetworkService>,
    /// MAC addresses of the host that accelerated networking leaves alone.
    pub management_macs: Vec<String>,
    /// The number the next new object gets.
    pub next_sequence: u64,
    /// The number the next change gets.
    pub next_revision: u64,
    /// The number the next populated namespace gets as its compartment.
    pub next_compartment: u32,
    /// Networks for which the switch could not do what they ask for. Not stored: a restart tries again.
    pub degraded: OrdSet<Guid>,
    /// Addresses in use and free, by network.
    addresses: OrdMap<Guid, Arc<Addresses>>,
    /// Which load balancer has a virtual address and port.
    frontends: OrdMap<Frontend, Guid>,
    /// Which endpoint has a port of the host.
    host_ports: OrdMap<HostPort, Guid>,
    /// Endpoint and load balancer it is a backend of.
    backends: OrdSet<(Guid, Guid)>,
    /// Endpoint and route it is a member of.
    routed: OrdSet<(Guid, Guid)>,
    /// Container and the namespace or endpoint that names it.
    containers: OrdSet<(Arc<str>, Guid)>,
}

/// The compartment of the host itself.
pub(crate) const HOST_COMPARTMENT: u32 = 1;

impl State {
    /// A state with nothing in it.
    pub(crate) fn new() -> Self {
        Self { next_sequence: 1, next_revision: 1, next_compartment: HOST_COMPARTMENT + 1, ..Self::default() }
    }

    /// The object with this id.
    pub(crate) fn get(&self, kind: Kind, id: Guid) -> Option<AnyRecord> {
        Some(match kind {
            Kind::Network => AnyRecord::Network(self.networks.get(id)?.clone()),
            Kind::Endpoint => AnyRecord::Endpoint(self.endpoints.get(id)?.clone()),
            Kind::Namespace => AnyRecord::Namespace(self.namespaces.get(id)?.clone()),
            Kind::LoadBalancer => AnyRecord::LoadBalancer(self.load_balancers.get(id)?.clone()),
            Kind::Route => AnyRecord::Route(self.routes.get(id)?.clone()),
            Kind::GuestNetworkService => AnyRecord::GuestNetworkService(self.guest_network_services.get(id)?.clone()),
        })
    }

    /// All objects of all kinds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = AnyRecord> + '_ {
        let networks = self.networks.iter().cloned().map(AnyRecord::Network);
        let endpoints = self.endpoints.iter().cloned().map(AnyRecord::Endpoint);
        let namespaces = self.namespaces.iter().cloned().map(AnyRecord::Namespace);
        let load_balancers = self.load_balancers.iter().cloned().map(AnyRecord::LoadBalancer);
        let routes = self.routes.iter().cloned().map(AnyRecord::Route);
        let services = self.guest_network_services.iter().cloned().map(AnyRecord::GuestNetworkService);
        networks.chain(namespaces).chain(endpoints).chain(load_balancers).chain(routes).chain(services)
    }

    /// Puts an object in, in place of an older one with the same id, and brings the indexes up to date.
    pub(crate) fn put(&mut self, record: AnyRecord) {
        self.unindex(record.kind(), record.id());
        self.next_sequence = self.next_sequence.max(record.inside().sequence + 1);
        self.next_revision = self.next_revision.max(record.inside().revision + 1);
        match record {
            AnyRecord::Network(record) => {
                self.index_network(&record);
                self.networks.put(record);
            }
            AnyRecord::Endpoint(record) => {
                self.index_endpoint(&record);
                self.endpoints.put(record);
            }
            AnyRecord::Namespace(record) => {
                self.index_namespace(&record);
                self.namespaces.put(record);
            }
            AnyRecord::LoadBalancer(record) => {
                self.index_load_balancer(&record);
                self.load_balancers.put(record);
            }
            AnyRecord::Route(record) => {
                self.routed.extend(record.document.endpoints.iter().map(|endpoint| (*endpoint, record.document.id)));
                self.routes.put(record);
            }
            AnyRecord::GuestNetworkService(record) => self.guest_network_services.put(record),
        }
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, kind: Kind, id: Guid) {
        self.unindex(kind, id);
        match kind {
            Kind::Network => {
                self.addresses.remove(&id);
                self.networks.remove(id);
            }
            Kind::Endpoint => _ = self.endpoints.remove(id),
            Kind::Namespace => _ = self.namespaces.remove(id),
            Kind::LoadBalancer => _ = self.load_balancers.remove(id),
            Kind::Route => _ = self.routes.remove(id),
            Kind::GuestNetworkService => _ = self.guest_network_services.remove(id),
        }
    }

    /// The addresses of a network.
    pub(crate) fn addresses(&self, network: Guid) -> Option<&Addresses> {
        self.addresses.get(&network).map(Arc::as_ref)
    }

    /// Which load balancer has a frontend.
    pub(crate) fn frontend_owner(&self, frontend: &Frontend) -> Option<Guid> {
        self.frontends.get(frontend).copied()
    }

    /// Which endpoints have a port of the host, or one that leaves no room for it.
    pub(crate) fn host_port_owners<'a>(&'a self, port: &'a HostPort) -> impl Iterator<Item = Guid> + 'a {
        let first = HostPort { address: None, ..port.clone() };
        let owners = self.host_ports.range(first..).take_while(|(other, _)| {
            (other.network, other.ipv6, other.protocol, other.port) == (port.network, port.ipv6, port.protocol, port.port)
        });
        owners.filter(|(other, _)| other.conflicts(port)).map(|(_, owner)| *owner)
    }

    /// Which endpoint leaves no room for a frontend: with an address one that has the port there, without one any that has the port.
    pub(crate) fn host_port_in_front(&self, frontend: &Frontend) -> Option<Guid> {
        let port = frontend.host_port();
        match frontend.address {
            Some(_) => self.host_ports.get(&port).copied(),
            None => self.host_port_owners(&port).next(),
        }
    }

    /// The network whose ports an endpoint's mappings take.
    fn port_owner(&self, endpoint: &Endpoint) -> Guid {
        self.networks.get(endpoint.network).map_or(endpoint.network, |network| ports_belong_to(&network.document))
    }

    /// The load balancers that have this endpoint as a backend.
    pub(crate) fn balancers_of(&self, endpoint: Guid) -> Vec<Guid> {
        members(&self.backends, endpoint)
    }

    /// The routes that have this endpoint as a member.
    pub(crate) fn routes_of(&self, endpoint: Guid) -> Vec<Guid> {
        members(&self.routed, endpoint)
    }

    /// Whether a namespace or an endpoint names this container.
    pub(crate) fn has_container(&self, container: &str) -> bool {
        let container: Arc<str> = container.into();
        self.containers.range((container.clone(), Guid::nil())..=(container, Guid::max())).next().is_some()
    }

    fn index_network(&mut self, record: &Record<Network>) {
        let id = record.document.id;
        let before = self.networks.get(id).map(|before| &before.document);
        if before.is_some_and(|before| before.ipams == record.document.ipams && before.mac_pool == record.document.mac_pool) {
            return;
        }
        let mut addresses = Addresses::of(&record.document);
        // A network that changes keeps the addresses its endpoints have.
        for endpoint in self.endpoints.of_network(id).filter_map(|endpoint| self.endpoints.get(endpoint)) {
            addresses.take(&endpoint.document);
        }
        if let Some(before) = self.addresses.get(&id) {
            addresses.continue_after(before);
        }
        self.addresses.insert(id, Arc::new(addresses));
    }

    fn index_endpoint(&mut self, record: &Record<Endpoint>) {
        let id = record.document.id;
        if let Some(addresses) = self.addresses.get_mut(&record.document.network) {
            Arc::make_mut(addresses).take(&record.document);
        }
        for port in host_ports_of(&record.document, self.port_owner(&record.document)) {
            self.host_ports.insert(port, id);
        }
        for container in &record.inside.containers {
            self.containers.insert((container.as_str().into(), id));
        }
    }

    fn index_namespace(&mut self, record: &Record<Namespace>) {
        self.next_compartment = self.next_compartment.max(record.document.compartment_id + 1);
        for container in record.document.containers() {
            self.containers.insert((container.into(), record.document.id));
        }
    }

    fn index_load_balancer(&mut self, record: &Record<LoadBalancer>) {
        let id = record.document.id;
        for frontend in frontends_of(&record.document) {
            self.frontends.insert(frontend, id);
        }
        self.backends.extend(record.document.endpoints.iter().map(|endpoint| (*endpoint, id)));
    }

    fn unindex(&mut self, kind: Kind, id: Guid) {
        match kind {
            Kind::Endpoint => self.unindex_endpoint(id),
            Kind::Namespace => {
                if let Some(record) = self.namespaces.get(id) {
                    for container in record.document.containers() {
                        self.containers.remove(&(container.into(), id));
                    }
                }
            }
            Kind::LoadBalancer => {
                if let Some(record) = self.load_balancers.get(id) {
                    for frontend in frontends_of(&record.document) {
                        self.frontends.remove(&frontend);
                    }
                    for endpoint in &record.document.endpoints {
                        self.backends.remove(&(*endpoint, id));
                    }
                }
            }
            Kind::Route => {
                if let Some(record) = self.routes.get(id) {
                    for endpoint in &record.document.endpoints {
                        self.routed.remove(&(*endpoint, id));
                    }
                }
            }
            Kind::Network | Kind::GuestNetworkService => {}
        }
    }

    fn unindex_endpoint(&mut self, id: Guid) {
        let Some(record) = self.endpoints.get(id).cloned() else {
            return;
        };
        if let Some(addresses) = self.addresses.get_mut(&record.document.network) {
            Arc::make_mut(addresses).give_back(&record.document);
        }
        for port in host_ports_of(&record.document, self.port_owner(&record.document)) {
            self.host_ports.remove(&port);
        }
        for container in &record.inside.containers {
            self.containers.remove(&(container.as_str().into(), id));
        }
    }
}

fn members(pairs: &OrdSet<(Guid, Guid)>, first: Guid) -> Vec<Guid> {
    pairs.range((first, Guid::nil())..=(first, Guid::max())).map(|(_, second)| *second).collect()
}
