//! A lab in a cluster that is there already, from inside: the way to its API, a DNS server of its own, and Nodes that stay alive there.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::api::{self, Applier, cause};
use crate::existing::Existing;
use crate::home::{GATEWAY, RECORD};
use crate::lab::{Failure, KUBECONFIG, Outside};
use crate::owner::Owner;
use crate::relay::{self, Target};
use crate::topology::Topology;

/// How often Nodes are told to be alive. Controllers take one for dead after forty seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A cluster that the lab is in.
pub(crate) struct Joined {
    pub(crate) client: Client,
    pub(crate) owner: Owner,
    /// By which the gateway knows that the lab is there.
    pub(crate) life: UnixStream,
}

/// Makes a way to the API at an address of the router.
pub(crate) async fn start(existing: &Existing, address: SocketAddr, outside: &Outside) -> Result<Joined, Failure> {
    let socket = outside.directory.join(GATEWAY);
    let told = |error: std::io::Error| Failure::new(format!("the gateway of the lab cannot be reached: {error}"));
    let life = UnixStream::connect(&socket).await.map_err(told)?;
    relay::start(TcpListener::bind(address)?, Target::Machine(socket))?;
    write(Path::new(KUBECONFIG), &outside.name, &existing.by_way_of(address))?;
    write(&outside.directory.join("kubeconfig"), &outside.name, &existing.kubeconfig)?;
    let client = api::client(Path::new(KUBECONFIG)).await?;
    let owner = Owner::begin(&existing.owner, &outside.name, outside.directory.join(RECORD))?;
    Ok(Joined { client, owner, life })
}

fn write(path: &Path, lab: &str, kubeconfig: &Value) -> Result<(), Failure> {
    let text = serde_norway::to_string(kubeconfig).map_err(|error| Failure::new(error.to_string()))?;
    let mut file = std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    Ok(write!(file, "# For the lab {lab:?} of transom; it goes with the lab.\n{text}")?)
}

/// Makes the Service of the lab's own DNS server, and gives its address: the cluster's server is nobody whom pods of the lab could reach.
pub(crate) async fn dns_address(applier: &mut Applier, topology: &Topology, owner: &Owner) -> Result<IpAddr, Failure> {
    let service = crate::system::dns_service(topology, Some(owner));
    applier.apply(&service).await?;
    let api: Api<Service> = Api::namespaced(applier.client().clone(), crate::system::NAMESPACE);
    let name = service.object["metadata"]["name"].as_str().unwrap_or_default();
    let made = api.get(name).await.map_err(|error| Failure::new(cause(&error)))?;
    let address = made.spec.and_then(|spec| spec.cluster_ip?.parse().ok());
    address.ok_or_else(|| Failure::new(format!("the Service {name} has got no address")))
}

/// Keeps Nodes alive in the eyes of controllers.
pub(crate) fn keep_alive(client: Client, topology: &Topology) {
    let names: Vec<String> = topology.nodes.iter().map(|node| node.name.clone()).collect();
    tokio::spawn(async move {
        let nodes: Api<Node> = Api::all(client);
        loop {
            sleep(HEARTBEAT).await;
            for name in &names {
                let condition =
                    json!({"type": "Ready", "status": "True", "lastHeartbeatTime": k8s_openapi::jiff::Timestamp::now().to_string()});
                let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
                if let Err(error) = nodes.patch_status(name, &PatchParams::default(), &patch).await {
                    tracing::warn!(name, error = cause(&error), "a Node could not be told to be alive");
                }
            }
        }
    });
}

/// Whether a pod is one that a lab has to do with: all of its own cluster, and of another those that are on its nodes or left to its scheduler.
pub(crate) fn concerns(pod: &Pod, topology: &Topology, owner: Option<&Owner>) -> bool {
    let Some(owner) = owner else { return true };
    let Some(spec) = &pod.spec else { return false };
    match spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => topology.nodes.iter().any(|node| node.name == name),
        None => spec.scheduler_name.as_ref() == Some(&owner.scheduler),
    }
}
