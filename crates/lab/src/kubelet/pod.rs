//! The life of one pod: its network, its volumes, its containers one after the other, and its end.

mod containers;
mod health;
mod storage;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::namespace::Namespace;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Context;
use super::report::{Report, Seen as SeenContainer, State};
use super::volume::Volumes;
use crate::event::Tone;
use crate::names::Dns;
use crate::neighbours;
use crate::node::Sandbox;
use crate::runtime::RunningContainer;
use crate::status::{ContainerStatus, DnsStatus, PodStatus};

/// How long is waited before a network is asked for again.
const NETWORK_PAUSE: Duration = Duration::from_millis(500);

/// The pod as the API wants it; none if it is gone there.
type Wanted = watch::Receiver<Option<Arc<Pod>>>;

/// What others see of a pod.
pub(super) struct Seen {
    /// How it is.
    pub(super) status: Arc<Mutex<PodStatus>>,
    /// Its network namespace, while it has one.
    pub(super) network: Arc<Mutex<Option<Arc<Namespace>>>>,
}

/// Looks after a pod until it is gone.
pub(super) async fn look_after(context: Arc<Context>, pod: Arc<Pod>, mut wanted: Wanted, seen: Seen) {
    let keeper = Arc::new(Keeper::new(context, pod, seen));
    let sandbox = tokio::select! {
        sandbox = keeper.attach() => Some(sandbox),
        () = is_to_end(&mut wanted) => None,
    };
    if let Some(sandbox) = &sandbox {
        let mut work = JoinSet::new();
        work.spawn(keeper.clone().run(sandbox.clone()));
        work.spawn(keeper.clone().publish());
        is_to_end(&mut wanted).await;
        keeper.stop(&wanted).await;
        work.shutdown().await;
    }
    keeper.show(None);
    keeper.remove_volumes();
    if let Some(sandbox) = sandbox {
        keeper.detach(sole(sandbox).await).await;
    }
    keeper.bury().await;
}

/// Waits until nobody else has the sandbox: work that was told to end lets go of it a moment later.
async fn sole(mut sandbox: Arc<Sandbox>) -> Sandbox {
    loop {
        match Arc::try_unwrap(sandbox) {
            Ok(sole) => return sole,
            Err(shared) => sandbox = shared,
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the pod is to go.
async fn is_to_end(wanted: &mut Wanted) {
    let is_over = |pod: &Option<Arc<Pod>>| pod.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    // Who is not told any more ends as well.
    _ = wanted.wait_for(is_over).await;
}

/// Who looks after a pod.
struct Keeper {
    context: Arc<Context>,
    pod: Arc<Pod>,
    spec: PodSpec,
    report: Mutex<Report>,
    changed: Notify,
    /// That it is this pod's turn to start; until the first of its containers has.
    turn: Mutex<Option<OwnedSemaphorePermit>>,
    volumes: Mutex<Volumes>,
    /// What runs, by its position among all containers.
    running: Mutex<Vec<(usize, Arc<RunningContainer>)>>,
    ended: Mutex<Vec<Arc<RunningContainer>>>,
    seen: Seen,
}

impl Keeper {
    fn new(context: Arc<Context>, pod: Arc<Pod>, seen: Seen) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        seen.status.lock().unwrap_or_else(PoisonError::into_inner).dns = dns_status(&context, &pod, &spec);
        let describe =
            |container: &Container, is_init| SeenContainer::new(&container.name, container.image.as_deref().unwrap_or_default(), is_init);
        let init = spec.init_containers.iter().flatten().map(|container| SeenContainer {
            is_sidecar: container.restart_policy.as_deref() == Some("Always"),
            ..describe(container, true)
        });
        let now = Timestamp::now();
        let report = Report {
            since: now,
            node_addresses: context.node.addresses(),
            addresses: Vec::new(),
            containers: init.chain(spec.containers.iter().map(|container| describe(container, false))).collect(),
            trouble: String::new(),
            turned: now,
            generation: pod.metadata.generation,
        };
        Self {
            context,
            pod,
            spec,
            report: Mutex::new(report),
            changed: Notify::new(),
            turn: Mutex::default(),
            volumes: Mutex::default(),
            running: Mutex::default(),
            ended: Mutex::default(),
            seen,
        }
    }

    fn name(&self) -> (String, String) {
        let metadata = &self.pod.metadata;
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
    }

    fn dns(&self) -> Dns {
        dns(&self.context, &self.pod, &self.spec)
    }

    /// Lets another pod start.
    fn end_turn(&self) {
        drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// A container by its position, those that prepare first.
    fn container(&self, position: usize) -> Option<&Container> {
        self.spec.init_containers.iter().flatten().chain(&self.spec.containers).nth(position)
    }

    /// Tells people what happened to the pod, or to a container.
    fn say(&self, position: Option<usize>, tone: Tone, reason: &str, message: &str) {
        let list = |position| if self.is_init(position) { "initContainers" } else { "containers" };
        let field = position.and_then(|position| Some(format!("spec.{}{{{}}}", list(position), self.container(position)?.name)));
        self.context.events.say(&self.pod, field, tone, reason, message);
    }

    fn is_init(&self, position: usize) -> bool {
        position < self.spec.init_containers.as_ref().map_or(0, Vec::len)
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.context.client.clone(), &self.name().0)
    }

    /// Changes what others can see of the pod.
    fn tell(&self, change: impl FnOnce(&mut Report)) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let was_ready = report.is_ready();
        change(&mut report);
        if report.is_ready() != was_ready {
            report.turned = Timestamp::now();
        }
        let mut status = self.seen.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.phase = report.phase().to_owned();
        status.is_ready = report.is_ready();
        status.addresses.clone_from(&report.addresses);
        status.restarts = report.containers.iter().map(|container| container.restarts).sum();
        status.trouble = report.trouble();
        status.containers = report.containers.iter().map(container_status).collect();
        self.changed.notify_one();
    }

    fn tell_container(&self, position: usize, change: impl FnOnce(&mut SeenContainer)) {
        self.tell(|report| {
            if let Some(seen) = report.containers.get_mut(position) {
                change(seen);
            }
        });
    }

    /// Tells the API whenever something is new.
    async fn publish(self: Arc<Self>) {
        let mut told = None;
        loop {
            let document = self.report.lock().unwrap_or_else(PoisonError::into_inner).document();
            if told.as_ref() != Some(&document) {
                let outcome = self.api().patch_status(&self.name().1, &PatchParams::default(), &Patch::Merge(&document)).await;
                match outcome {
                    Ok(_) => told = Some(document),
                    Err(kube::Error::Api(status)) if status.code == 404 => return,
                    Err(error) => {
                        tracing::warn!(pod = ?self.name(), %error, "its status could not be told; trying again");
                        sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                }
            }
            self.changed.notified().await;
        }
    }

    /// Gets the pod its network, however long it takes.
    async fn attach(&self) -> Arc<Sandbox> {
        let id = sandbox_id(&self.pod);
        loop {
            // Nobody ever closes the door, and then everybody may go through.
            let turn = self.context.turns.clone().acquire_owned().await.ok();
            let outcome = match self.spec.host_network {
                Some(true) => self.context.node.share(&id, self.name()),
                _ => self.context.node.attach(&id, self.name(), &self.dns()).await,
            };
            match outcome {
                Ok(sandbox) => {
                    self.tell(|report| {
                        report.addresses = sandbox.addresses.iter().map(IpNet::addr).collect();
                        report.trouble.clear();
                    });
                    self.show(sandbox.namespace.try_clone().ok());
                    *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
                    return Arc::new(sandbox);
                }
                Err(error) => {
                    drop(turn);
                    tracing::warn!(pod = ?self.name(), %error, "no network");
                    self.tell(|report| report.trouble = error.to_string());
                    self.say(None, Tone::Warning, "FailedCreatePodSandBox", &error.to_string());
                    self.publish_once().await;
                    sleep(NETWORK_PAUSE).await;
                }
            }
        }
    }

    /// Lets others see the pod's network namespace, or not any more.
    fn show(&self, namespace: Option<Namespace>) {
        *self.seen.network.lock().unwrap_or_else(PoisonError::into_inner) = namespace.map(Arc::new);
    }

    async fn publish_once(&self) {
        let document = self.report.lock().unwrap_or_else(PoisonError::into_inner).document();
        // The next one says it again.
        _ = self.api().patch_status(&self.name().1, &PatchParams::default(), &Patch::Merge(&document)).await;
    }

    /// Has the kernel keep what the answer to a probe has taught it.
    async fn keep_neighbours(&self) {
        let network = self.seen.network.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(network) = network.filter(|_| self.spec.host_network != Some(true)) else { return };
        let (node, addresses) = (self.context.node.namespace.clone(), self.addresses());
        let kept = tokio::task::spawn_blocking(move || neighbours::keep(&node, &network, &addresses)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(pod = ?self.name(), %error, "its neighbours are asked for again and again");
        }
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).addresses.clone()
    }

    fn grace(&self, wanted: Option<&Pod>) -> Duration {
        let deleted = wanted.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
        let seconds = deleted.or(self.spec.termination_grace_period_seconds).unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Ends all containers. A pod that is gone already gets no grace.
    async fn stop(&self, wanted: &Wanted) {
        let pod = wanted.borrow().clone();
        let grace = if pod.is_some() { self.grace(pod.as_deref()) } else { Duration::ZERO };
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stops = running.iter().map(|(position, container)| self.end(*position, container, grace, "Stopping container"));
        futures_util::future::join_all(stops).await;
    }

    async fn detach(&self, sandbox: Sandbox) {
        if !sandbox.is_shared {
            let (node, addresses) = (self.context.node.namespace.clone(), self.addresses());
            let forgotten = tokio::task::spawn_blocking(move || neighbours::forget(&node, &addresses)).await;
            if let Ok(Err(error)) = forgotten {
                tracing::warn!(pod = ?self.name(), %error, "its node remembers it");
            }
        }
        if let Err(error) = self.context.node.detach(sandbox).await {
            tracing::warn!(pod = ?self.name(), %error, "its network could not be taken away");
        }
    }

    /// Tells the API that nothing is left of the pod.
    async fn bury(&self) {
        let preconditions = Preconditions { uid: self.pod.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..DeleteParams::default() };
        loop {
            match self.api().delete(&self.name().1, &params).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(_) => sleep(Duration::from_secs(1)).await,
            }
        }
    }
}

fn dns(context: &Context, pod: &Pod, spec: &PodSpec) -> Dns {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    crate::names::settings(spec, namespace, &context.node.spec, &context.topology)
}

fn dns_status(context: &Context, pod: &Pod, spec: &PodSpec) -> DnsStatus {
    let Dns { servers, search, options } = dns(context, pod, spec);
    DnsStatus { servers, search, options }
}

fn container_status(seen: &SeenContainer) -> ContainerStatus {
    let is_running = matches!(seen.state, State::Running { .. });
    ContainerStatus { name: seen.name.clone(), id: seen.id.clone(), pid: is_running.then_some(seen.pid), log: seen.log.clone() }
}

/// An id for the pod's network: names of files, and of devices with what they begin with.
fn sandbox_id(pod: &Pod) -> String {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    uid.chars().filter(char::is_ascii_alphanumeric).collect()
}
