//! The Kubernetes API of a lab, as those inside use it.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use cluster::connect::{Source, connect};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::discovery::{self, Scope};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::owner::{LABEL, Owner};
use crate::topology::{Manifest, Os, Topology};

/// Who has written what the lab writes.
pub(crate) const MANAGER: &str = "transom-lab";

/// What is said of an object that others have made.
const NOT_OURS: &str = "the cluster has it already, and it is not of this lab; choose another name, or take that one away";

/// How long a Kubernetes namespace may take until its service account is there, without which no pod is taken.
const ACCOUNT_PATIENCE: Duration = Duration::from_secs(20);

/// How long the server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why the API did not do what the lab wanted.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) String);

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the server says, without the words that a client's library puts around it.
pub(crate) fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Connects to the server that a kubeconfig names.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client, ApiError> {
    let source = Source::File { path: kubeconfig.to_owned(), context: None };
    let begin = std::time::Instant::now();
    loop {
        let outcome = match connect(&source).await {
            Ok(client) => client.apiserver_version().await.map(|_| client).map_err(|error| cause(&error)),
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(client) => return Ok(client),
            Err(error) if begin.elapsed() > PATIENCE => return Err(ApiError(format!("the Kubernetes API does not answer: {error}"))),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Makes a Node as its kubelet would, or brings the one that is there up to date, if it is the lab's.
pub(crate) async fn register(client: &Client, topology: &Topology, position: usize, owner: Option<&Owner>) -> Result<(), ApiError> {
    let mut node = node(topology, position);
    if let Some(owner) = owner {
        owner.take(&mut node, false).map_err(|error| ApiError(error.to_string()))?;
        // Nobody else's pods are to be scheduled here.
        node["spec"]["taints"] = json!([{"key": LABEL, "value": owner.id, "effect": "NoSchedule"}]);
    }
    let name = topology.nodes[position].name.as_str();
    let nodes: Api<Node> = Api::all(client.clone());
    let failed = |error: kube::Error| ApiError(format!("Node {name}: {}", cause(&error)));
    let document: Node = serde_json::from_value(node.clone()).map_err(|error| ApiError(error.to_string()))?;
    match nodes.create(&PostParams::default(), &document).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            if owner.is_some() {
                return Err(ApiError(format!("Node {name}: {NOT_OURS}")));
            }
            nodes.patch(name, &PatchParams::default(), &Patch::Merge(&node)).await.map_err(failed)?;
        }
        outcome => _ = outcome.map_err(failed)?,
    }
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": node["status"]}))).await.map_err(failed)?;
    Ok(())
}

fn node(topology: &Topology, position: usize) -> Value {
    let spec = &topology.nodes[position];
    let subnets: Vec<String> = topology.node_subnets(position).iter().map(ToString::to_string).collect();
    let mut labels = json!({
        "kubernetes.io/os": spec.os.label(), "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": spec.name,
    });
    for (key, value) in &spec.labels {
        labels[key] = json!(value);
    }
    let mut addresses: Vec<Value> =
        topology.node_addresses(position).iter().map(|net| json!({"type": "InternalIP", "address": net.addr().to_string()})).collect();
    addresses.push(json!({"type": "Hostname", "address": spec.name}));
    let build = spec.build.as_deref().unwrap_or("transom");
    let (image, kernel) = match spec.os {
        Os::Windows => (format!("Windows as transom's HNS has it ({build})"), build.to_owned()),
        Os::Linux => ("Linux".to_owned(), kernel_release()),
    };
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "250"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {"podCIDR": subnets[0], "podCIDRs": subnets},
        "status": {
            "addresses": addresses, "capacity": resources, "allocatable": resources,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the lab's kubelet runs",
                "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "transom://lab", "kernelVersion": kernel,
                "kubeProxyVersion": "", "kubeletVersion": format!("v0.0.0-transom{}", env!("CARGO_PKG_VERSION")), "machineID": "",
                "operatingSystem": spec.os.label(), "osImage": image, "systemUUID": ""}},
    })
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Changes an object that is there. It is not new.
async fn change(api: &Api<DynamicObject>, name: &str, document: &Value) -> Result<bool, String> {
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }.validation_strict();
    api.patch(name, &params, &Patch::Merge(document)).await.map(|_| false).map_err(|error| cause(&error))
}

/// Takes a Kubernetes namespace away with all that is in it, and waits until it is gone.
pub(crate) async fn remove_namespace(client: &Client, name: &str, patience: Duration) -> Result<(), ApiError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(name, &DeleteParams::default()).await.map_err(|error| ApiError(cause(&error)))?;
    let begin = Instant::now();
    while begin.elapsed() < patience {
        match namespaces.get_opt(name).await {
            Ok(None) => return Ok(()),
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
    Err(ApiError(format!("the Kubernetes namespace {name} does not go; see `kubectl get all -n {name}`")))
}

/// Applies manifests, and knows the resources that were asked for already.
pub(crate) struct Applier {
    client: Client,
    owner: Option<Owner>,
    known: HashMap<String, (ApiResource, bool)>,
}

impl Applier {
    pub(crate) fn new(client: Client, owner: Option<Owner>) -> Self {
        Self { client, owner, known: HashMap::new() }
    }

    /// The API.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Makes an object, or changes the one that is there. Returns whether it is new.
    pub(crate) async fn apply(&mut self, manifest: &Manifest) -> Result<bool, ApiError> {
        let failed = |why: String| ApiError(format!("line {}: {}: {why}", manifest.line, manifest.title()));
        let (resource, is_namespaced) = self.resource(&manifest.object).await.map_err(failed)?;
        let mut document = manifest.object.clone();
        if let Some(owner) = &self.owner {
            owner.take(&mut document, is_namespaced).map_err(|error| failed(error.to_string()))?;
        }
        let object: DynamicObject = serde_json::from_value(document.clone()).map_err(|error| failed(error.to_string()))?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let api: Api<DynamicObject> = match is_namespaced {
            true => {
                let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            false => Api::all_with(self.client.clone(), &resource),
        };
        if let Some(owner) = &self.owner
            // Kubernetes' own server says of a Service that is there with its address that the address is taken.
            && let Some(there) = api.get_opt(&name).await.map_err(|error| failed(cause(&error)))?
        {
            return match owner.has(there.metadata.labels.as_ref()) {
                true => change(&api, &name, &document).await.map_err(failed),
                false => Err(failed(NOT_OURS.to_owned())),
            };
        }
        match self.create_patiently(&api, &object).await {
            Ok(()) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" && self.owner.is_none() => {
                change(&api, &name, &document).await.map_err(failed)
            }
            Err(error) => Err(failed(cause(&error))),
        }
    }

    /// Makes an object. A pod whose Kubernetes namespace is new is tried again until it has its service account.
    async fn create_patiently(&self, api: &Api<DynamicObject>, object: &DynamicObject) -> kube::Result<()> {
        let begin = Instant::now();
        loop {
            match self.create(api, object).await {
                Err(kube::Error::Api(status))
                    if status.code == 403 && status.message.contains("serviceaccount") && begin.elapsed() < ACCOUNT_PATIENCE =>
                {
                    sleep(Duration::from_millis(50)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Makes an object. A field that nobody knows is a mistake, as it is for `kubectl apply`.
    async fn create(&self, api: &Api<DynamicObject>, object: &DynamicObject) -> kube::Result<()> {
        let refused = |error: &dyn std::fmt::Display| kube::Error::Service(error.to_string().into());
        let body = serde_json::to_vec(object).map_err(|error| refused(&error))?;
        let path = format!("{}?fieldManager={MANAGER}&fieldValidation=Strict", api.resource_url());
        let request = http::Request::post(path).header("content-type", "application/json").body(body);
        self.client.request::<Value>(request.map_err(|error| refused(&error))?).await.map(drop)
    }

    async fn resource(&mut self, object: &Value) -> Result<(ApiResource, bool), String> {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let key = format!("{version} {kind}");
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let found = discovery::pinned_kind(&self.client, &GroupVersionKind::gvk(group, version, kind)).await;
        let (resource, capabilities) =
            found.map_err(|_| format!("the API has no kind {kind} in {}; look at apiVersion and kind", text("apiVersion")))?;
        let known = (resource, capabilities.scope == Scope::Namespaced);
        self.known.insert(key, known.clone());
        Ok(known)
    }
}
