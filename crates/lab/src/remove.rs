//! Taking away what a lab has made in a cluster of others. This is done on the machine, from what was written down, so that it does not matter
//! how the lab has ended.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::discovery::{self, Scope};
use kube::{Api, Client};
use tokio::time::sleep;

use crate::api::cause;
use crate::existing;
use crate::home::Home;
use crate::owner::{self, Heading, LABEL, Made};

/// How long everything may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the server may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Takes away everything that a lab has made. Nothing is done for one that was alone in its cluster.
pub(crate) fn remove(home: &Home) -> Result<(), String> {
    let Ok(text) = std::fs::read_to_string(home.record()) else { return Ok(()) };
    let Some((heading, made)) = owner::read(&text) else { return Ok(()) };
    let kubeconfig = std::fs::read_to_string(home.kubeconfig()).map_err(|error| format!("{}: {error}", home.kubeconfig().display()))?;
    let kubeconfig = serde_norway::from_str(&kubeconfig).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(async {
        let client = existing::client(&kubeconfig).await?;
        Removal { client, heading, made }.run().await
    });
    outcome.map_err(|cause| {
        format!(
            "what it made in its cluster could not be taken away: {cause}; try `transom lab down --name {}` again, or take it away yourself \
             (label {LABEL}) and then delete {}",
            home.name(),
            home.directory().display()
        )
    })
}

struct Removal {
    client: Client,
    heading: Heading,
    made: Vec<Made>,
}

impl Removal {
    async fn run(&self) -> Result<(), String> {
        let begin = Instant::now();
        let nodes = self.own_nodes().await?;
        // What was made last goes first, so that nothing is made anew by what is still there.
        let mut left: Vec<&Made> = self.made.iter().rev().filter(|made| made.kind != "Node").collect();
        loop {
            let mut still = Vec::new();
            for made in left {
                if tokio::time::timeout(ANSWER, self.is_there(made)).await.map_err(|_| "the API server does not answer".to_owned())?? {
                    still.push(made);
                }
            }
            left = still;
            let pods = self.end_pods(&nodes).await?;
            if left.is_empty() && pods == 0 {
                break;
            }
            if begin.elapsed() > PATIENCE {
                let titles: Vec<String> = left.iter().map(|made| made.title()).collect();
                return Err(format!(
                    "{pods} pods and {} do not go",
                    if titles.is_empty() { "nothing else".to_owned() } else { titles.join(", ") }
                ));
            }
            sleep(Duration::from_millis(100)).await;
        }
        for name in nodes {
            match Api::<Node>::all(self.client.clone()).delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                outcome => _ = outcome.map_err(|error| format!("Node {name}: {}", cause(&error)))?,
            }
        }
        Ok(())
    }

    /// The Nodes that are there and are the lab's. One of others with a name of the lab's is left alone, with its pods.
    async fn own_nodes(&self) -> Result<Vec<String>, String> {
        let ours = ListParams::default().labels(&format!("{LABEL}={}", self.heading.owner));
        let listed = tokio::time::timeout(ANSWER, Api::<Node>::all(self.client.clone()).list(&ours)).await;
        let listed =
            listed.map_err(|_| "the API server does not answer".to_owned())?.map_err(|error| format!("Nodes: {}", cause(&error)))?;
        Ok(listed.items.into_iter().filter_map(|node| node.metadata.name).collect())
    }

    /// Whether an object of the lab is there, which is then told to go.
    async fn is_there(&self, made: &Made) -> Result<bool, String> {
        let failed = |error: kube::Error| format!("{}: {}", made.title(), cause(&error));
        let (group, version) = made.api_version.split_once('/').unwrap_or(("", &made.api_version));
        let found = discovery::pinned_kind(&self.client, &GroupVersionKind::gvk(group, version, &made.kind)).await;
        // A kind that is gone has taken its objects along.
        let (resource, capabilities) = match found {
            Ok(found) => found,
            Err(kube::Error::Api(_) | kube::Error::Discovery(_)) => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let api: Api<DynamicObject> = match (&made.namespace, capabilities.scope) {
            (Some(namespace), Scope::Namespaced) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            _ => Api::all_with(self.client.clone(), &resource),
        };
        let Some(object) = api.get_opt(&made.name).await.map_err(failed)? else { return Ok(false) };
        if !self.is_own(&object.metadata) {
            return Ok(false);
        }
        if object.metadata.deletion_timestamp.is_none() {
            match api.delete(&made.name, &DeleteParams::background()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(true)
    }

    fn is_own(&self, metadata: &ObjectMeta) -> bool {
        metadata.labels.as_ref().and_then(|labels| labels.get(LABEL)) == Some(&self.heading.owner)
    }

    /// Ends pods on the lab's nodes, which no kubelet does any more, and the lab's own that have no node. Gives how many there were.
    async fn end_pods(&self, nodes: &[String]) -> Result<usize, String> {
        let failed = |error: kube::Error| format!("pods: {}", cause(&error));
        let listed = Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await.map_err(failed)?;
        let is_ours = |pod: &&Pod| {
            let is_here = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_some_and(|node| nodes.contains(node)));
            is_here || self.is_own(&pod.metadata)
        };
        let ours: Vec<&Pod> = listed.items.iter().filter(is_ours).collect();
        for pod in &ours {
            let (namespace, name) =
                (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default());
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            match Api::<Pod>::namespaced(self.client.clone(), namespace).delete(name, &now).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                outcome => _ = outcome.map_err(failed)?,
            }
        }
        Ok(ours.len())
    }
}
