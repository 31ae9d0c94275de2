//! A stand-in for the kubelet of a node: keeps its pods as the API wants them, and tells the API how they are.

mod environment;
mod hook;
pub(crate) mod image;
mod left_out;
mod pod;
mod probe;
mod report;
mod resource;
mod sources;
mod volume;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster::mirror::{Config, Mirror};
use host::namespace::Namespace;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::event::Recorder;
use crate::node::LabNode;
use crate::status::PodStatus;
use crate::topology::Topology;
pub(crate) use environment::expand;

/// The uid of a pod: one with the name of another that is gone is another.
type Uid = String;

/// What pods need of their surroundings.
pub(crate) struct Context {
    pub(crate) node: Arc<LabNode>,
    pub(crate) client: Client,
    pub(crate) topology: Arc<Topology>,
    /// Who may start: as many pods at once as the machine has use for, on all nodes together. The others wait, and do not make it slower.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) events: Recorder,
}

/// The kubelet of a node.
pub(crate) struct Kubelet {
    context: Arc<Context>,
    workers: Arc<Mutex<BTreeMap<Uid, Worker>>>,
    _loop: JoinHandle<()>,
}

/// Who looks after one pod.
struct Worker {
    /// The pod as the API has it now; none if it is gone there.
    wanted: watch::Sender<Option<Arc<Pod>>>,
    /// The pod as it is.
    status: Arc<Mutex<PodStatus>>,
    /// Its network namespace, while it has one.
    network: Arc<Mutex<Option<Arc<Namespace>>>>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Begins to look after the pods of a node.
    pub(crate) fn start(context: Context) -> Self {
        let context = Arc::new(context);
        let workers = Arc::new(Mutex::new(BTreeMap::new()));
        let follow = follow(context.clone(), workers.clone());
        Self { context, workers, _loop: tokio::spawn(follow) }
    }

    /// How its pods are.
    pub(crate) fn status(&self) -> Vec<PodStatus> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        // Who is done with a pod has nothing more to say of it.
        let busy = workers.values().filter(|worker| !worker.task.is_finished());
        let mut all: Vec<PodStatus> = busy.map(|worker| worker.status.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect();
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        all
    }

    /// The network namespace of a pod, while it has one.
    pub(crate) fn namespace_of(&self, namespace: &str, name: &str) -> Option<Arc<Namespace>> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = workers.values().find(|worker| {
            let status = worker.status.lock().unwrap_or_else(PoisonError::into_inner);
            status.namespace == namespace && status.name == name
        });
        worker?.network.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node it is for.
    pub(crate) fn node(&self) -> &LabNode {
        &self.context.node
    }
}

/// Hands every pod of the node to a worker of its own.
async fn follow(context: Arc<Context>, workers: Arc<Mutex<BTreeMap<Uid, Worker>>>) {
    let here = Config::default().fields(&format!("spec.nodeName={}", context.node.spec.name));
    let mirror: Mirror<Pod> = Mirror::start(Api::all(context.client.clone()), here);
    mirror.complete().await;
    let mut health = mirror.health();
    loop {
        hand_out(&context, &workers, mirror.all());
        if health.changed().await.is_err() {
            return;
        }
    }
}

fn hand_out(context: &Arc<Context>, workers: &Mutex<BTreeMap<Uid, Worker>>, pods: Vec<Arc<Pod>>) {
    let mut workers = workers.lock().unwrap_or_else(PoisonError::into_inner);
    workers.retain(|_, worker| !worker.task.is_finished());
    let by_uid: BTreeMap<Uid, Arc<Pod>> = pods.into_iter().filter_map(|pod| Some((pod.metadata.uid.clone()?, pod))).collect();
    for (_, worker) in workers.iter().filter(|(uid, _)| !by_uid.contains_key(*uid)) {
        worker.wanted.send_if_modified(|wanted| wanted.take().is_some());
    }
    for (uid, pod) in by_uid {
        match workers.get(&uid) {
            Some(worker) => worker.tell(pod),
            // What has ended for good, or is about to go and never was here, needs nobody.
            None if is_over(&pod) => {}
            None => _ = workers.insert(uid, Worker::start(context.clone(), pod)),
        }
    }
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none()
}

impl Worker {
    fn start(context: Arc<Context>, pod: Arc<Pod>) -> Self {
        let (wanted, watched) = watch::channel(Some(pod.clone()));
        let status = Arc::new(Mutex::new(PodStatus {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            node: context.node.spec.name.clone(),
            phase: "Pending".to_owned(),
            ..PodStatus::default()
        }));
        let network = Arc::default();
        let seen = pod::Seen { status: status.clone(), network: Arc::clone(&network) };
        let task = tokio::spawn(pod::look_after(context, pod, watched, seen));
        Self { wanted, status, network, task }
    }

    /// The pod as it is wanted now. Our own words about its status are no news.
    fn tell(&self, pod: Arc<Pod>) {
        self.wanted.send_if_modified(|wanted| {
            let is_news = wanted
                .as_ref()
                .is_none_or(|known| known.metadata.deletion_timestamp != pod.metadata.deletion_timestamp || known.spec != pod.spec);
            *wanted = Some(pod);
            is_news
        });
    }
}
