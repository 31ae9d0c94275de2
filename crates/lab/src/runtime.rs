//! Running containers: on Windows nodes as compute systems of HCS, elsewhere as plain ones.

mod compute_system;
mod plain;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::container::Mount;
use tokio::sync::watch;

use crate::names::Dns;
use crate::node::Sandbox;
pub(crate) use compute_system::ComputeSystems;
pub(crate) use plain::Plain;

/// The exit code of a container whose first process cannot say one, since it was killed with all others.
const KILLED: i32 = 137;

/// What is to run.
pub(crate) struct Order {
    /// The container's id.
    pub(crate) id: String,
    /// The host name.
    pub(crate) host_name: String,
    /// The program and its arguments.
    pub(crate) arguments: Vec<String>,
    /// Its variables.
    pub(crate) variables: BTreeMap<String, String>,
    /// Where it starts.
    pub(crate) directory: Option<String>,
    /// How it resolves names.
    pub(crate) dns: Dns,
    /// What it sees of the pod's volumes.
    pub(crate) mounts: Vec<Mount>,
}

/// A container that runs, or has ended. What it has left goes with this value.
pub(crate) struct RunningContainer {
    /// Its id.
    pub(crate) id: String,
    /// The process that it ends with.
    pub(crate) pid: u32,
    /// Where its processes write to.
    pub(crate) log: PathBuf,
    /// The exit code, once there is one.
    code: watch::Receiver<Option<i32>>,
    variables: BTreeMap<String, String>,
    engine: Arc<dyn Engine>,
}

/// What makes containers.
pub(crate) trait Engine: Send + Sync {
    /// Makes a container in a pod's network and starts its process. Waits.
    fn start(&self, network: &Network, order: &Order, exit: watch::Sender<Option<i32>>) -> Result<Started, String>;

    /// Runs a command in it, and gives the exit code. Waits.
    fn exec(&self, id: &str, arguments: Vec<String>, variables: &BTreeMap<String, String>, patience: Duration) -> Result<i32, String>;

    /// Ends it: asks first, and kills after the time of grace. Waits.
    fn stop(&self, id: &str, grace: Duration) -> Result<(), String>;

    /// Takes away what it has left.
    fn forget(&self, id: &str);
}

/// The network that a container is in.
pub(crate) struct Network {
    /// Its namespace.
    pub(crate) namespace: host::namespace::Namespace,
    /// The id of its HCN namespace.
    pub(crate) hcn: Option<hcn::Guid>,
    /// Its addresses.
    pub(crate) addresses: Vec<std::net::IpAddr>,
}

/// What was started.
pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) log: PathBuf,
}

/// Starts a container with an engine.
pub(crate) async fn start(engine: &Arc<dyn Engine>, sandbox: &Sandbox, order: Order) -> Result<RunningContainer, String> {
    let network = Network {
        namespace: sandbox.namespace.try_clone().map_err(|error| error.to_string())?,
        hcn: sandbox.hcn,
        addresses: sandbox.addresses.iter().map(ipnet::IpNet::addr).collect(),
    };
    let (exit, code) = watch::channel(None);
    let starter = engine.clone();
    let started = tokio::task::spawn_blocking(move || starter.start(&network, &order, exit).map(|started| (started, order))).await;
    let (Started { pid, log }, order) = started.map_err(|error| error.to_string())??;
    Ok(RunningContainer { id: order.id, pid, log, code, variables: order.variables, engine: engine.clone() })
}

impl RunningContainer {
    /// Waits until it ends, and gives the exit code.
    pub(crate) async fn exited(&self) -> i32 {
        let mut code = self.code.clone();
        let ended = code.wait_for(Option::is_some).await;
        ended.ok().and_then(|code| *code).unwrap_or(KILLED)
    }

    /// Ends it: asks first, and kills after the time of grace.
    pub(crate) async fn stop(&self, grace: Duration) {
        let (engine, id) = (self.engine.clone(), self.id.clone());
        let stopped = tokio::task::spawn_blocking(move || engine.stop(&id, grace)).await;
        if let Ok(Err(error)) = stopped {
            tracing::warn!(container = self.id, error, "it does not end");
        }
    }

    /// Runs a command in it, and gives the exit code.
    pub(crate) async fn exec(&self, arguments: Vec<String>) -> Result<i32, String> {
        let (engine, id, variables) = (self.engine.clone(), self.id.clone(), self.variables.clone());
        let done = tokio::task::spawn_blocking(move || engine.exec(&id, arguments, &variables, Duration::from_secs(60))).await;
        done.map_err(|error| error.to_string())?
    }
}

impl Drop for RunningContainer {
    fn drop(&mut self) {
        let (engine, id) = (self.engine.clone(), std::mem::take(&mut self.id));
        // It may take a moment, and whoever drops this waits for nobody.
        tokio::task::spawn_blocking(move || engine.forget(&id));
    }
}
