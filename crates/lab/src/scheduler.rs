//! A stand-in for the scheduler: gives every pod that has none a node that it may run on, the emptiest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::mirror::{Config, Mirror};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::event::{Recorder, Tone};
use crate::join::concerns;
use crate::owner::Owner;
use crate::topology::{NodeSpec, Topology};

/// Begins to schedule: all pods, or in a cluster of others those that are left to it.
pub(crate) fn start(client: Client, topology: Arc<Topology>, events: Recorder, owner: Option<Owner>) {
    tokio::spawn(async move {
        let mirror: Mirror<Pod> = Mirror::start(Api::all(client.clone()), Config::default());
        mirror.complete().await;
        let mut health = mirror.health();
        loop {
            let mut pods = mirror.all();
            pods.retain(|pod| concerns(pod, &topology, owner.as_ref()));
            for (pod, decision) in decide(&topology.nodes, &pods) {
                act(&client, &events, &pod, &decision).await;
            }
            if health.changed().await.is_err() {
                return;
            }
        }
    });
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// It gets a node.
    Node(String),
    /// There is none for it, and why.
    None(String),
}

/// Decides on all pods without a node.
fn decide(nodes: &[NodeSpec], pods: &[Arc<Pod>]) -> Vec<(Arc<Pod>, Decision)> {
    let mut loads: BTreeMap<&str, usize> = nodes.iter().map(|node| (node.name.as_str(), 0)).collect();
    for node in pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()) {
        if let Some(load) = loads.get_mut(node) {
            *load += 1;
        }
    }
    let mut waiting: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_waiting(pod)).collect();
    waiting.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
    let mut decisions = Vec::new();
    for pod in waiting {
        let fitting = nodes.iter().filter(|node| fits(pod, node));
        let emptiest = fitting.min_by_key(|node| loads.get(node.name.as_str()).copied());
        let decision = match emptiest {
            Some(node) => {
                *loads.entry(node.name.as_str()).or_default() += 1;
                Decision::Node(node.name.clone())
            }
            None => Decision::None(format!("0/{} nodes are available: none has the labels of its nodeSelector and its os", nodes.len())),
        };
        decisions.push((pod.clone(), decision));
    }
    decisions
}

fn is_waiting(pod: &Pod) -> bool {
    let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_some_and(|name| !name.is_empty()));
    let is_told = pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|it| it.type_ == "PodScheduled");
    !has_node && pod.metadata.deletion_timestamp.is_none() && !is_told
}

/// Whether a node has all that a pod asks for.
fn fits(pod: &Pod, node: &NodeSpec) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let selector = spec.node_selector.clone().unwrap_or_default();
    let label = |key: &str| match key {
        "kubernetes.io/os" => Some(node.os.label()),
        "kubernetes.io/hostname" => Some(node.name.as_str()),
        "kubernetes.io/arch" => Some("amd64"),
        key => node.labels.get(key).map(String::as_str),
    };
    let is_of_system = spec.os.as_ref().is_none_or(|os| os.name == node.os.label());
    is_of_system && selector.iter().all(|(key, value)| label(key) == Some(value.as_str()))
}

async fn act(client: &Client, events: &Recorder, pod: &Pod, decision: &Decision) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let outcome = match decision {
        Decision::Node(node) => bind(client, namespace, name, node).await,
        Decision::None(cause) => {
            let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": cause});
            let status = json!({"status": {"phase": "Pending", "conditions": [condition]}});
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.map(drop)
        }
    };
    match (outcome, decision) {
        (Ok(()), Decision::Node(node)) => {
            events.say(pod, None, Tone::Normal, "Scheduled", &format!("Successfully assigned {namespace}/{name} to {node}"));
        }
        (Ok(()), Decision::None(cause)) => events.say(pod, None, Tone::Warning, "FailedScheduling", cause),
        (Err(error), _) => tracing::warn!(namespace, name, %error, "a pod could not be scheduled; trying again when something changes"),
    }
}

async fn bind(client: &Client, namespace: &str, name: &str, node: &str) -> kube::Result<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = http::Request::post(path).header("content-type", "application/json").body(binding.to_string().into_bytes());
    let request = request.map_err(|error| kube::Error::Service(Box::new(error)))?;
    client.request::<Value>(request).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{DEFAULT, read};

    fn pod(name: &str, spec: Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    #[test]
    fn the_emptiest_node_that_fits_is_taken() {
        let nodes = read(DEFAULT, &|_| Ok(())).unwrap().topology.nodes;
        let on_windows = |name: &str| pod(name, json!({"containers": [], "nodeSelector": {"kubernetes.io/os": "windows"}}));
        let pods = [
            pod("a", json!({"containers": [], "nodeName": "win1"})),
            on_windows("b"),
            on_windows("c"),
            on_windows("d"),
            pod("e", json!({"containers": [], "os": {"name": "linux"}})),
            pod("f", json!({"containers": [], "nodeSelector": {"disk": "ssd"}})),
        ];
        let decisions: Vec<Decision> = decide(&nodes, &pods).into_iter().map(|(_, decision)| decision).collect();
        let node = |name: &str| Decision::Node(name.to_owned());
        let none = Decision::None("0/3 nodes are available: none has the labels of its nodeSelector and its os".to_owned());
        assert_eq!(decisions, [node("win2"), node("win1"), node("win2"), node("linux1"), none]);
    }
}
