//! Containers of Windows nodes: compute systems of HCS, in an HCN namespace, with a registry of their own.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcn::Hcn;
use hcs::network::{SearchList, adapters};
use hcs::process::{ProcessParameters, Streams};
use hcs::registry::Hive;
use hcs::runtime::Happening;
use hcs::runtime::linux::{Linux, Settings};
use hcs::service::{Notification, Service};
use host::container::{Mount, MountTable, Program};
use host::namespace;
use serde_json::json;
use tokio::sync::watch;

use super::{Engine, KILLED, Network, Order, Started};

/// Who waits for the end of which system, and the number of its first process once it is known.
type Waiting = Arc<Mutex<HashMap<String, (watch::Sender<Option<i32>>, Option<u32>)>>>;

/// Makes compute systems.
pub(crate) struct ComputeSystems {
    service: Service,
    waiting: Waiting,
    directory: PathBuf,
}

impl ComputeSystems {
    /// Compute systems on a node's HNS, in the node's directory, which has the names of network namespaces too.
    pub(crate) fn new(hcn: Arc<dyn Hcn>, node: &Path, search_list: SearchList, table: Arc<MountTable>) -> io::Result<Self> {
        let (namespaces, directory) = (node.join("namespaces"), node.join("systems"));
        let waiting = Waiting::default();
        let find = move |id: Option<hcn::Guid>| {
            let id = id.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a compute system needs an HCN namespace"))?;
            namespace::open(&namespaces.join(id.to_string()))
        };
        let settings = Settings {
            program: Program::default(),
            directory: directory.clone(),
            hidden: Vec::new(),
            table: Some(table),
            namespaces: Box::new(find),
        };
        let observer = {
            let waiting = waiting.clone();
            Arc::new(move |notification: Notification| tell(&waiting, &notification))
        };
        let adapters = Box::new(move |id| adapters(&*hcn, id));
        let service = Service::new(Box::new(Linux::new(settings)?), adapters, search_list, observer);
        Ok(Self { service, waiting, directory })
    }

    /// The registry of a container.
    pub(crate) fn registry(&self, id: &str) -> Result<Hive, String> {
        self.service.registry(id).map_err(|error| error.to_string())
    }

    fn make(&self, network: &Network, order: &Order) -> hcs::error::Result<u32> {
        let id = &order.id;
        let mapped = |mount: &Mount| json!({"HostPath": mount.source, "ContainerPath": mount.target, "ReadOnly": mount.read_only});
        let document = json!({
            "Owner": "transom-lab", "SchemaVersion": {"Major": 2, "Minor": 1}, "ShouldTerminateOnLastHandleClosed": true,
            "Container": {
                "GuestOs": {"HostName": order.host_name},
                "MappedDirectories": order.mounts.iter().map(mapped).collect::<Vec<_>>(),
                "Networking": {
                    "Namespace": network.hcn.map(|id| id.to_string()), "DnsSearchList": order.dns.search.join(","),
                    "AllowUnqualifiedDnsQuery": false}}});
        self.service.create(id, &document.to_string())?;
        self.service.start(id)?;
        let mut parameters = ProcessParameters::new(order.arguments.clone()).with_environment(order.variables.clone());
        parameters.working_directory = order.directory.clone().unwrap_or_default();
        self.service.create_process(id, &parameters, Streams::Log)
    }
}

/// Tells whoever waits what happened to a system.
fn tell(waiting: &Waiting, notification: &Notification) {
    let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((exit, main)) = waiting.get(&notification.id) else { return };
    match notification.happening {
        // Before its number is known, whoever ends is the first.
        Happening::ProcessExited { pid, code } if main.is_none_or(|main| main == pid) => _ = exit.send_replace(Some(code)),
        Happening::ProcessExited { .. } => {}
        Happening::Ended => _ = exit.send_if_modified(|known| known.replace(known.unwrap_or(KILLED)).is_none()),
    }
}

impl Engine for ComputeSystems {
    fn start(&self, network: &Network, order: &Order, exit: watch::Sender<Option<i32>>) -> Result<Started, String> {
        let id = &order.id;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), (exit, None));
        let main = self.make(network, order).map_err(|error| {
            self.forget(id);
            error.to_string()
        })?;
        if let Some((_, number)) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_mut(id) {
            *number = Some(main);
        }
        let pid = self.service.init_pid(id).ok().flatten().unwrap_or(0);
        Ok(Started { pid, log: self.directory.join(id).join("log") })
    }

    fn exec(&self, id: &str, arguments: Vec<String>, variables: &BTreeMap<String, String>, patience: Duration) -> Result<i32, String> {
        let parameters = ProcessParameters::new(arguments).with_environment(variables.clone());
        let pid = self.service.create_process(id, &parameters, Streams::Null).map_err(|error| error.to_string())?;
        let code = self.service.wait_process(id, pid, patience).map_err(|error| error.to_string())?;
        // It is known for as long as somebody may ask for it.
        _ = self.service.close_process(id, pid);
        code.ok_or_else(|| "the command did not end".to_owned())
    }

    fn stop(&self, id: &str, grace: Duration) -> Result<(), String> {
        match self.service.shutdown(id, grace) {
            Ok(()) | Err(hcs::error::Error::AlreadyStopped(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn forget(&self, id: &str) {
        // One that was never made has nothing to take away.
        _ = self.service.delete(id);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}
