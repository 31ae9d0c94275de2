//! What flanneld tells the cluster: annotations, the node's condition, and Events.

use std::time::Duration;

use flannel::agent::Round;
use flannel::annotation::Prefix;
use flannel::trouble::{Subject, Trouble};
use k8s_openapi::api::core::v1::{Event, Node};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who says it.
const COMPONENT: &str = "flanneld";

/// The way to the cluster.
pub(super) struct ClusterSide {
    node_name: String,
    prefix: Prefix,
    announce: bool,
    /// What the last Event said.
    told: Vec<String>,
    /// Whether an answer did not come.
    is_silent: bool,
}

impl ClusterSide {
    pub(super) fn new(node_name: String, prefix: Prefix, announce: bool) -> Self {
        Self { node_name, prefix, announce, told: Vec::new(), is_silent: false }
    }

    /// Publishes what is to be known of this node.
    pub(super) async fn publish(&mut self, client: &Client, round: &Round) -> Option<Trouble> {
        let (own, publication) = (round.own.as_ref()?, round.publication.as_ref()?);
        if let Some(patch) = publication.patch(&own.annotations, &self.prefix)
            && let Err(cause) = self.patch(client, &patch).await
        {
            return Some(Trouble::new(
                Subject::Api,
                format!("the Node cannot be annotated: {cause}; flanneld needs patch on nodes/status"),
            ));
        }
        let is_announced = own.is_announced || !self.announce || !round.troubles.is_empty();
        if !is_announced && let Err(cause) = self.patch(client, &available()).await {
            return Some(Trouble::new(Subject::Api, format!("the condition NetworkUnavailable cannot be cleared: {cause}")));
        }
        None
    }

    async fn patch(&mut self, client: &Client, patch: &Value) -> Result<(), String> {
        let nodes: Api<Node> = Api::all(client.clone());
        let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
        match tokio::time::timeout(PATIENCE, nodes.patch_status(&self.node_name, &parameters, &patch)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                self.is_silent = true;
                Err(format!("no answer within {} s", PATIENCE.as_secs()))
            }
        }
    }

    /// Changes the Node in a way that means nothing, so that whoever watches hears something. Whether it works is seen by that.
    pub(super) async fn touch(&mut self, client: &Client, round: &Round) {
        if round.own.as_ref().is_some_and(|own| own.is_announced) && self.announce {
            _ = self
                .patch(client, &json!({ "status": { "conditions": [{ "type": "NetworkUnavailable", "lastHeartbeatTime": now() }] } }))
                .await;
        }
    }

    /// Whether an answer did not come since this was asked last.
    pub(super) fn take_silence(&mut self) -> bool {
        std::mem::take(&mut self.is_silent)
    }

    /// Says by an Event what is not as it should be, once for each change of it. That it cannot be said is nothing to act on.
    pub(super) async fn tell(&mut self, client: &Client, troubles: &[Trouble], complaints: &[String]) {
        let lines: Vec<String> = troubles.iter().map(Trouble::to_string).chain(complaints.iter().cloned()).collect();
        if lines == self.told {
            return;
        }
        let event = match lines.is_empty() {
            true => self.event("Normal", "FlannelIsUp", "the network of this node is as it should be"),
            false => self.event("Warning", if troubles.is_empty() { "FlannelPeer" } else { "FlannelTrouble" }, &lines.join("; ")),
        };
        let events: Api<Event> = Api::namespaced(client.clone(), "default");
        match tokio::time::timeout(PATIENCE, events.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "an Event could not be made"),
            Err(_) => tracing::debug!("an Event could not be made in time"),
        }
        self.told = lines;
    }

    fn event(&self, kind: &str, reason: &str, message: &str) -> Event {
        // The API takes no more.
        let message: String = message.chars().take(1000).collect();
        let now = now();
        let document = json!({
            "metadata": { "generateName": format!("{}.", self.node_name), "namespace": "default" },
            // Kubelets use the name as the id of Nodes too, and `kubectl describe` looks for it.
            "involvedObject": { "kind": "Node", "apiVersion": "v1", "name": self.node_name, "uid": self.node_name },
            "type": kind, "reason": reason, "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": { "component": COMPONENT, "host": self.node_name },
        });
        serde_json::from_value(document).unwrap_or_default()
    }
}

/// The condition that the original sets when it runs.
fn available() -> Value {
    let now = now();
    json!({ "status": { "conditions": [{
        "type": "NetworkUnavailable", "status": "False", "reason": "FlannelIsUp",
        "message": "Flannel is running on this node", "lastTransitionTime": now, "lastHeartbeatTime": now,
    }] } })
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
