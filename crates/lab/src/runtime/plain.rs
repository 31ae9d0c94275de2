//! Containers of Linux nodes, and those that share the network of their node.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use host::container::supervisor::Listener;
use host::container::{Container, Event, Mount, MountTable, Process, Program, Spec, Streams, Supervisor};
use tokio::sync::watch;

use super::{Engine, KILLED, Network, Order, Started};
use crate::names::Dns;

/// Makes plain containers.
pub(crate) struct Plain {
    supervisor: Supervisor,
    directory: PathBuf,
    containers: Mutex<HashMap<String, Arc<Container>>>,
}

impl Plain {
    /// Containers whose files are in a directory.
    pub(crate) fn new(directory: PathBuf, table: Arc<MountTable>) -> io::Result<Self> {
        let supervisor = Supervisor::new(Program::default())?.from_table(Some(table));
        Ok(Self { supervisor, directory, containers: Mutex::default() })
    }

    fn find(&self, id: &str) -> Result<Arc<Container>, String> {
        let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.get(id).cloned().ok_or_else(|| format!("there is no container {id}"))
    }

    fn make(&self, network: &Network, order: &Order, exit: watch::Sender<Option<i32>>) -> io::Result<Started> {
        let directory = self.directory.join(&order.id);
        let mut mounts = write_files(&directory, network, order)?;
        mounts.extend_from_slice(&order.mounts);
        let log = directory.join("log");
        let spec = Spec { id: order.id.clone(), host_name: order.host_name.clone(), mounts, log: Some(log.clone()), ..Spec::default() };
        let main = Arc::new(OnceLock::new());
        let container = Arc::new(self.supervisor.create(&spec, &network.namespace, listener(main.clone(), exit))?);
        let process = Process {
            arguments: order.arguments.clone(),
            environment: order.variables.clone(),
            directory: order.directory.clone().map(PathBuf::from),
        };
        let pid = container.spawn(&process, &Streams::Log)?;
        _ = main.set(pid);
        let started = Started { pid: container.init_pid(), log };
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).insert(order.id.clone(), container);
        Ok(started)
    }
}

/// Tells the exit code of the first process, or that all were killed.
fn listener(main: Arc<OnceLock<u32>>, exit: watch::Sender<Option<i32>>) -> Listener {
    Arc::new(move |event| match event {
        // Before its number is known, whoever ends is the first.
        Event::Exited { pid, code } if main.get().is_none_or(|main| *main == pid) => _ = exit.send_replace(Some(code)),
        Event::Exited { .. } => {}
        Event::Ended => _ = exit.send_if_modified(|known| known.replace(known.unwrap_or(KILLED)).is_none()),
    })
}

impl Engine for Plain {
    fn start(&self, network: &Network, order: &Order, exit: watch::Sender<Option<i32>>) -> Result<Started, String> {
        self.make(network, order, exit).map_err(|error| error.to_string())
    }

    fn exec(&self, id: &str, arguments: Vec<String>, variables: &BTreeMap<String, String>, patience: Duration) -> Result<i32, String> {
        let container = self.find(id)?;
        let process = Process { arguments, environment: variables.clone(), directory: None };
        let pid = container.spawn(&process, &Streams::Null).map_err(|error| error.to_string())?;
        container.wait_process(pid, patience).ok_or_else(|| "the command did not end".to_owned())
    }

    fn stop(&self, id: &str, grace: Duration) -> Result<(), String> {
        self.find(id)?.stop(grace).map_err(|error| error.to_string())
    }

    fn forget(&self, id: &str) {
        drop(self.containers.lock().unwrap_or_else(PoisonError::into_inner).remove(id));
        // What cannot be taken away goes with the lab.
        _ = std::fs::remove_dir_all(self.directory.join(id));
    }
}

/// Writes the files that a container sees instead of the machine's.
fn write_files(directory: &Path, network: &Network, order: &Order) -> io::Result<Vec<Mount>> {
    std::fs::create_dir_all(directory)?;
    let mut hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    for address in &network.addresses {
        hosts.push_str(&format!("{address}\t{}\n", order.host_name));
    }
    let files = [("resolv.conf", resolv_conf(&order.dns)), ("hosts", hosts), ("hostname", format!("{}\n", order.host_name))];
    let mut mounts = Vec::new();
    for (name, text) in files {
        let source = directory.join(name);
        std::fs::write(&source, text)?;
        mounts.push(Mount { source: Some(source), target: Path::new("/etc").join(name), read_only: true });
    }
    Ok(mounts)
}

fn resolv_conf(dns: &Dns) -> String {
    let mut text: String = dns.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    if !dns.search.is_empty() {
        text.push_str(&format!("search {}\n", dns.search.join(" ")));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}
