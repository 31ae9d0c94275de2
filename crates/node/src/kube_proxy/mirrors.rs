//! The objects of the cluster that a Service proxy acts on.

use cluster::mirror::{Config, Health, Mirror};
use futures_util::future::select_all;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use proxy::backend::SeenSlice;
use proxy::cluster::Cluster;
use proxy::programming::Changes;
use proxy::service::SeenService;
use tokio::sync::watch;

/// Services, their backends and our own node.
pub(super) struct Mirrors {
    services: Mirror<SeenService>,
    slices: Mirror<SeenSlice>,
    nodes: Mirror<Node>,
    node_name: String,
    health: [watch::Receiver<Health>; 3],
}

impl Mirrors {
    /// Begins to follow. What is meant for other proxies or for nobody does not come at all.
    pub(super) fn start(client: &Client, node_name: &str) -> Self {
        let ours = Config::default().labels("!service.kubernetes.io/service-proxy-name").fields("spec.clusterIP!=None");
        let services = Mirror::start_reading(Api::all(client.clone()), ours, |service: Service| SeenService::read(&service));
        let with_address = Config::default().labels("!service.kubernetes.io/headless");
        let here = node_name.to_owned();
        let read = move |slice: EndpointSlice| SeenSlice::read(&slice, &here);
        let slices = Mirror::start_reading(Api::all(client.clone()), with_address, read);
        let own = Config::default().fields(&format!("metadata.name={node_name}"));
        let nodes = Mirror::start(Api::all(client.clone()), own);
        let health = [services.health(), slices.health(), nodes.health()];
        Self { services, slices, nodes, node_name: node_name.to_owned(), health }
    }

    /// Waits until something is new.
    pub(super) async fn changed(&mut self) {
        let waiting = self.health.iter_mut().map(|health| Box::pin(health.changed()));
        _ = select_all(waiting).await;
    }

    /// Whether everything was seen at least once.
    pub(super) fn are_complete(&self) -> bool {
        self.health.iter().all(|health| health.borrow().is_complete)
    }

    /// Why nothing comes, if nothing comes.
    pub(super) fn trouble(&self) -> Option<String> {
        self.health.iter().find_map(|health| health.borrow().trouble.as_ref().map(|trouble| trouble.cause.clone()))
    }

    /// How many changes of Services and of EndpointSlices came so far.
    pub(super) fn changes(&self) -> (u64, u64) {
        (self.health[0].borrow().changes, self.health[1].borrow().changes)
    }

    /// The name of our own node.
    pub(super) fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Our own node, if the cluster knows it.
    pub(super) fn node(&self) -> Option<std::sync::Arc<Node>> {
        self.nodes.get(&self.node_name, None)
    }

    /// What the cluster says now, and which changes are in it.
    pub(super) fn read(&self, changes: &mut Changes) -> Cluster {
        let (services, slices) = (self.services.all(), self.slices.all());
        changes.note(slices.iter().filter_map(|slice| slice.trigger.as_ref()));
        Cluster::of(&self.node_name, self.node().as_deref(), &services, &slices)
    }
}
