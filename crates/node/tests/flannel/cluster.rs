//! The Nodes and Events in the API server of a world.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::World;
use crate::harness::api_server::ApiServer;

/// What annotations begin with.
pub(crate) const PREFIX: &str = "flannel.alpha.coreos.com";

/// The cluster of a world, whose API server can be killed and started again.
pub(crate) struct Cluster {
    server: ApiServer,
}

impl Cluster {
    pub(crate) fn start(world: &World) -> Self {
        Self { server: ApiServer::start(world) }
    }

    /// Starts the server in another life.
    pub(crate) fn resume(&mut self, world: &World) {
        self.server.run(world);
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig()
    }

    /// Asks the API something.
    fn ask<T: Send, F: Future<Output = kube::Result<T>>>(&self, question: impl FnOnce(Client) -> F + Send) -> T {
        self.server.ask("the API", question)
    }

    /// Makes a Node with these podCIDRs.
    pub(crate) fn add(&self, name: &str, cidrs: &[&str]) {
        let mut node = json!({ "metadata": { "name": name }, "spec": {} });
        if !cidrs.is_empty() {
            node["spec"] = json!({ "podCIDR": cidrs[0], "podCIDRs": cidrs });
        }
        let node: Node = serde_json::from_value(node).expect("a Node");
        self.ask(async |client| Api::<Node>::all(client).create(&PostParams::default(), &node).await);
    }

    /// Makes a Pod on a node.
    pub(crate) fn add_pod(&self, name: &str, node: &str) {
        let pod = json!({
            "metadata": { "name": name }, "spec": { "nodeName": node, "containers": [{ "name": "it", "image": "example.com/it:1" }] } });
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        self.ask(async |client| Api::<Pod>::namespaced(client, "default").create(&PostParams::default(), &pod).await);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.ask(async |client| Api::<Node>::all(client).delete(name, &DeleteParams::default()).await);
    }

    /// Changes a Node.
    pub(crate) fn change(&self, name: &str, patch: &Value) {
        self.ask(async |client| Api::<Node>::all(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await);
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.ask(async |client| Api::<Node>::all(client).get(name).await)
    }

    /// An annotation of a Node.
    pub(crate) fn annotation(&self, name: &str, key: &str) -> String {
        let annotations = self.node(name).metadata.annotations.unwrap_or_default();
        annotations.get(&format!("{PREFIX}/{key}")).cloned().unwrap_or_default()
    }

    /// What Events say about a Node.
    pub(crate) fn events(&self, name: &str) -> Vec<String> {
        let events = self.ask(async |client| Api::<Event>::namespaced(client, "default").list(&ListParams::default()).await);
        let about = events.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        about.map(|event| format!("{} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
    }
}
