//! Waiting until a lab's pods are ready.

use std::time::Duration;

use cluster::mirror::{Config, Mirror};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use crate::api::cause;
use crate::lab::{Failure, Progress};
use crate::owner::Owner;

/// How long it may take until another pod is ready. Then the lab is called up without the rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// How soon is looked again at most, and though nothing happens.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What matters of a pod.
struct Seen {
    name: String,
    /// Whether it is ready, or has ended and never will be.
    is_good: bool,
}

impl Seen {
    fn read(pod: Pod) -> Self {
        let status = pod.status.unwrap_or_default();
        let is_ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
        let is_good = is_ready || matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        Self { name: pod.metadata.name.unwrap_or_default(), is_good }
    }
}

/// Waits until all pods are ready, or nothing becomes better: then the lab is up, and it is told which are not. In a cluster of others only
/// the lab's own are waited for.
pub(crate) async fn wait(client: &Client, owner: Option<&Owner>, progress: &Progress) -> Result<((), String), Failure> {
    let ours = owner.map(Owner::selector);
    let config = Config { label_selector: ours.clone(), ..Config::default() };
    let list = ListParams { label_selector: ours, ..ListParams::default() };
    let mirror: Mirror<Seen> = Mirror::start_reading(Api::all(client.clone()), config, Seen::read);
    mirror.complete().await;
    let mut health = mirror.health();
    let (mut best, mut since) = (0, Instant::now());
    loop {
        let pods = mirror.all();
        let bad: Vec<&str> = pods.iter().filter(|pod| !pod.is_good).map(|pod| pod.name.as_str()).collect();
        let (count, good) = (pods.len(), pods.len() - bad.len());
        if bad.is_empty() && count > 0 && are_made(client, &list).await? {
            return Ok(((), format!("{count} ready")));
        }
        if good > best {
            (best, since) = (good, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Ok(((), format!("{} of {count} not ready: {}; see `transom lab status`", bad.len(), bad.join(", "))));
        }
        progress.tell(format!("{good} of {count} ready"));
        sleep(SHORTEST_PAUSE).await;
        // It may be time to give up.
        _ = timeout(LONGEST_PAUSE, health.changed()).await;
    }
}

/// Whether controllers have made all pods that they are to make.
async fn are_made(client: &Client, list: &ListParams) -> Result<bool, Failure> {
    let failed = |error: kube::Error| Failure::new(cause(&error));
    let deployments = Api::<Deployment>::all(client.clone()).list(list).await.map_err(failed)?.items;
    let sets = Api::<ReplicaSet>::all(client.clone()).list(list).await.map_err(failed)?.items;
    let has_all = |wanted: Option<i32>, made: i32| made >= wanted.unwrap_or(1);
    let is_deployed = |it: &Deployment| has_all(it.spec.replicas, it.status.as_ref().and_then(|status| status.replicas).unwrap_or(0));
    let is_filled = |it: &ReplicaSet| has_all(it.spec.replicas, it.status.as_ref().map_or(0, |status| status.replicas));
    Ok(deployments.iter().all(is_deployed) && sets.iter().all(is_filled))
}
