//! The objects of the cluster that have names.

use ::dns::facts::{PodFacts, ServiceFacts, SliceFacts};
use ::dns::zone::{PodNames, Sources};
use cluster::mirror::{Config, Health, Mirror};
use futures_util::future::select_all;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use tokio::sync::watch;

/// Services, their backends, and pods if only those that are there have names.
pub(super) struct Mirrors {
    services: Mirror<Service>,
    slices: Mirror<EndpointSlice>,
    pods: Option<Mirror<Pod>>,
    health: Vec<watch::Receiver<Health>>,
}

impl Mirrors {
    /// Begins to follow.
    pub(super) fn start(client: &Client, pods: PodNames) -> Self {
        let services = Mirror::start(Api::all(client.clone()), Config::default());
        let slices = Mirror::start(Api::all(client.clone()), Config::default());
        let pods = (pods == PodNames::Verified).then(|| Mirror::start(Api::all(client.clone()), Config::default()));
        let health = [services.health(), slices.health()].into_iter().chain(pods.as_ref().map(Mirror::health)).collect();
        Self { services, slices, pods, health }
    }

    /// Waits until something is new.
    pub(super) async fn changed(&mut self) {
        let waiting = self.health.iter_mut().map(|health| Box::pin(health.changed()));
        _ = select_all(waiting).await;
    }

    /// Takes note of everything that is new.
    pub(super) fn mark_seen(&mut self) {
        self.health.iter_mut().for_each(watch::Receiver::mark_unchanged);
    }

    /// Whether everything was seen at least once.
    pub(super) fn are_complete(&self) -> bool {
        self.health.iter().all(|health| health.borrow().is_complete)
    }

    /// Why nothing comes, if nothing comes.
    pub(super) fn trouble(&self) -> Option<String> {
        self.health.iter().find_map(|health| health.borrow().trouble.as_ref().map(|trouble| trouble.cause.clone()))
    }

    /// How many changes came so far.
    pub(super) fn changes(&self) -> u64 {
        self.health.iter().map(|health| health.borrow().changes).sum()
    }

    /// What names need of it all.
    pub(super) fn read(&self) -> Sources {
        Sources {
            services: self.services.all().iter().filter_map(|it| ServiceFacts::read(it)).collect(),
            slices: self.slices.all().iter().filter_map(|it| SliceFacts::read(it)).collect(),
            pods: self.pods.iter().flat_map(Mirror::all).filter_map(|it| PodFacts::read(&it)).collect(),
        }
    }
}
