//! A Windows node: HNS as a build of Windows, its switch, flanneld, kube-proxy, and pods by way of CNI.

mod config;
mod network;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hcn::client::{Address, Client};
use hcn::profile::Limit;
use hcn::{Guid, Hcn, Kind as ObjectKind};
use hcs::network::SearchList;
use hcs::registry::Hive;
use host::namespace::{self, Namespace};
use serde_json::{Value, json};

use super::{LabNode, SWITCH, Sandbox, Surroundings, strings};
use crate::cni::{Attachment, CniError, Network};
use crate::daemon::{Guest, NotReady, Program};
use crate::foreign::{HNSD, Plugins};
use crate::names::Dns;
use crate::runtime::{ComputeSystems, Engine};
use crate::topology::{Mode, NetworkSpec, NodeSpec};

/// How often a pod's network is tried. The first address that host-local gives out on a bridge is that of the node's own endpoint, and whoever
/// gets it is refused; runtimes try again.
const TRIES: usize = 3;

/// How many connections the switch of a node remembers: many labs are on one machine.
const CONNECTIONS: &str = "131072";

/// What is Windows' on a node.
pub(super) struct Windows {
    directory: PathBuf,
    network: Network,
    client: Arc<Client>,
    engine: Arc<dyn Engine>,
    systems: Arc<ComputeSystems>,
    spec: NetworkSpec,
    /// How its switch moves packets, once that has said so.
    data_path: OnceLock<String>,
}

impl Windows {
    pub(super) fn new(directory: &Path, namespace: Arc<Namespace>, position: usize, surroundings: &Surroundings) -> io::Result<Self> {
        let topology = &surroundings.topology;
        let spec = &topology.nodes[position];
        let socket = directory.join("hnsd.sock");
        let network = Network {
            namespace,
            config: config::config(directory, position, topology),
            variables: vec![("TRANSOM_HNSD".to_owned(), socket.display().to_string())],
            plugins: None,
        };
        let client = Arc::new(Client::new(Address::Unix(socket)));
        let systems = Arc::new(ComputeSystems::new(client.clone(), directory, search_list(spec), surroundings.mounts.clone())?);
        let spec = topology.network_of(spec).clone();
        Ok(Self { directory: directory.to_owned(), network, client, engine: systems.clone(), systems, spec, data_path: OnceLock::new() })
    }

    /// Has pods connected by plugins of others, whose configuration is made from that of ours.
    pub(super) fn call_others(&mut self, choose: impl FnOnce(&Value) -> Option<(Plugins, Value)>) {
        if let Some((plugins, config)) = choose(&self.network.config) {
            (self.network.plugins, self.network.config) = (Some(Arc::new(plugins)), config);
        }
    }

    pub(super) async fn start(&self, node: &LabNode) -> Result<(), NotReady> {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let name = &node.spec.name;
        let switch = strings(&["--socket", &path(SWITCH), "--namespace-dir", &path("namespaces"), "--connections", CONNECTIONS]);
        node.run(Program::role(name, "vswitchd", &switch)).await?;
        self.ask_data_path().await;
        node.run(Program::role(name, "hnsd", &self.hnsd_arguments(&node.spec))).await?;
        self.make_network(node).await?;
        if !self.spec.mode.has_load_balancers() {
            return Ok(());
        }
        let source_vips = match self.spec.mode {
            Mode::Overlay => self.reserve_source_vips().await.map_err(|error| not_ready(name, "no address for kube-proxy", &error))?,
            _ => Vec::new(),
        };
        node.run_kube_proxy(self.kube_proxy(node, &source_vips), &source_vips).await
    }

    /// How the switch moves packets: `bpf` or `tap`.
    pub(super) fn data_path(&self) -> String {
        self.data_path.get().cloned().unwrap_or_default()
    }

    async fn ask_data_path(&self) {
        let socket = self.directory.join(SWITCH);
        let ask = move || Client::new(Address::Unix(socket)).request("GET", "/data-path", "");
        if let Ok(Ok(report)) = tokio::task::spawn_blocking(ask).await
            && let Some(path) = report["DataPath"].as_str()
        {
            _ = self.data_path.set(path.to_owned());
        }
    }

    fn hnsd_arguments(&self, spec: &NodeSpec) -> Vec<String> {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let mut arguments = strings(&["--socket", &path("hnsd.sock"), "--state-dir", &path("hns"), "--switch", &path(SWITCH)]);
        arguments.extend(strings(&["--listen", HNSD]));
        arguments.extend(build_arguments(spec));
        arguments
    }

    pub(super) async fn hns_without(&self, node: &LabNode, items: &[&str]) -> Result<(Guest, Arc<Client>), NotReady> {
        let (socket, state) = (self.directory.join("hnsd-guest.sock"), self.directory.join("hns-guest"));
        // What an earlier one has kept is not of interest.
        _ = std::fs::remove_dir_all(&state);
        let mut arguments = vec!["--socket".to_owned(), socket.display().to_string()];
        arguments.extend(["--state-dir".to_owned(), state.display().to_string()]);
        arguments.extend(strings(&["--switch", "none"]));
        arguments.extend(build_arguments(&node.spec));
        arguments.extend(items.iter().flat_map(|item| strings(&["--without", item])));
        let mut program = Program::role(&node.spec.name, "hnsd", &arguments);
        program.name.push_str("-guest");
        let guest = Guest::start(&program, &node.namespace).await?;
        Ok((guest, Arc::new(Client::new(Address::Unix(socket)))))
    }

    fn kube_proxy(&self, node: &LabNode, source_vips: &[String]) -> Program {
        let hnsd = format!("unix:{}", self.directory.join("hnsd.sock").display());
        let mut arguments = strings(&["--hnsd", &hnsd, "--network-name", self.spec.name()]);
        arguments.extend(strings(&["--hostname-override", &node.spec.name, "--kubeconfig"]));
        arguments.push(node.surroundings.kubeconfig.display().to_string());
        arguments.extend(strings(&["--healthz-bind-address", "127.0.0.1:10256", "--metrics-bind-address", "127.0.0.1:10249"]));
        arguments.extend(["--min-sync-period".to_owned(), node.sync_period()]);
        if !source_vips.is_empty() {
            arguments.extend(["--source-vip".to_owned(), source_vips.join(",")]);
        }
        if node.spec.kube_proxy.dsr {
            arguments.push("--enable-dsr".to_owned());
        }
        Program::role(&node.spec.name, "kube-proxy", &arguments)
    }

    /// Takes an address of every family for connections that kube-proxy translates, as the usual scripts of Windows nodes do.
    async fn reserve_source_vips(&self) -> Result<Vec<String>, CniError> {
        let subnets = subnet_env(&self.directory.join("subnet.env"));
        let ranges: Vec<Value> = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
        let config = json!({
            "cniVersion": "1.0.0", "name": "source-vip", "type": "host-local",
            "ipam": {"type": "host-local", "ranges": ranges, "dataDir": self.data_directory()}});
        let attachment = Attachment { container: "source-vip".to_owned(), netns: "none".to_owned(), pod: Default::default() };
        let added =
            Network { config: shared_name(config, &self.network.config), plugins: None, ..self.network.clone() }.add(&attachment).await?;
        Ok(added.addresses.iter().map(|address| address.addr().to_string()).collect())
    }

    fn data_directory(&self) -> PathBuf {
        self.directory.join("addresses")
    }

    /// Its HNS.
    pub(super) fn hcn(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// What makes containers.
    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The registry of a container.
    pub(super) fn registry(&self, id: &str) -> Result<Hive, String> {
        self.systems.registry(id)
    }

    pub(super) async fn attach(&self, id: &str, pod: (String, String), dns: &Dns) -> Result<Sandbox, CniError> {
        let client = self.client.clone();
        let hcn = blocking(move || make_namespace(&client)).await?;
        let attachment = Attachment { container: id.to_owned(), netns: hcn.to_string(), pod: pod.clone() };
        let outcome = self.try_to_add(&attachment, dns).await;
        let added = match outcome {
            Ok(added) => added,
            Err(error) => {
                // What the plugin could not do it has undone; the namespace is ours.
                _ = self.drop_namespace(hcn).await;
                return Err(error);
            }
        };
        let namespace = namespace::open(&self.directory.join("namespaces").join(hcn.to_string()))?;
        Ok(Sandbox { id: id.to_owned(), pod, namespace, addresses: added.addresses, hcn: Some(hcn), is_shared: false })
    }

    /// Adds a sandbox of nobody, has the plugin check it, and takes it away.
    pub(super) async fn try_cni_check(&self) -> Result<(), CniError> {
        self.try_sandbox(true).await
    }

    async fn try_sandbox(&self, with_check: bool) -> Result<(), CniError> {
        let client = self.client.clone();
        let hcn = blocking(move || make_namespace(&client)).await?;
        let attachment = Attachment { container: hcn.simple().to_string(), netns: hcn.to_string(), pod: Default::default() };
        let checked = match self.try_to_add(&attachment, &Dns::default()).await {
            Ok(added) if with_check => self.network.check(&attachment, &added).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        let removed = self.network.del(&attachment).await;
        self.drop_namespace(hcn).await?;
        checked.and(removed)
    }

    async fn try_to_add(&self, attachment: &Attachment, dns: &Dns) -> Result<crate::cni::Added, CniError> {
        let mut network = self.network.clone();
        // As runtimes tell plugins that have the capability `dns`.
        network.config["runtimeConfig"] = json!({"dns": {"servers": dns.servers, "searches": dns.search, "options": dns.options}});
        let mut outcome = network.add(attachment).await;
        for _ in 1..TRIES {
            if outcome.is_ok() {
                break;
            }
            outcome = network.add(attachment).await;
        }
        outcome
    }

    pub(super) async fn detach(&self, sandbox: Sandbox) -> Result<(), CniError> {
        let Some(hcn) = sandbox.hcn else { return Ok(()) };
        let attachment = Attachment { container: sandbox.id, netns: hcn.to_string(), pod: sandbox.pod };
        self.network.del(&attachment).await?;
        self.drop_namespace(hcn).await
    }

    async fn drop_namespace(&self, id: Guid) -> Result<(), CniError> {
        let client = self.client.clone();
        blocking(move || client.delete(ObjectKind::Namespace, id)).await
    }
}

/// The build that HNS runs as.
fn build_arguments(spec: &NodeSpec) -> Vec<String> {
    let profile = spec.build.iter().flat_map(|build| strings(&["--profile", build]));
    let with = spec.with.iter().flat_map(|item| strings(&["--with", item]));
    profile.chain(with).chain(spec.without.iter().flat_map(|item| strings(&["--without", item]))).collect()
}

/// Addresses of one network are given out from one directory, whoever takes them.
fn shared_name(mut config: Value, network: &Value) -> Value {
    config["name"] = network["name"].clone();
    config
}

fn not_ready(node: &str, what: &str, error: &CniError) -> NotReady {
    NotReady { cause: format!("{node}: {what}: {error}"), log: Vec::new() }
}

/// How many suffixes containers have: as many as their pod asks for, where the build can do that.
fn search_list(spec: &NodeSpec) -> SearchList {
    if spec.is_limited(Limit::OneDnsSuffix) { SearchList::First } else { SearchList::Whole }
}

/// The pod subnets that flanneld got for the node.
pub(super) fn subnet_env(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned));
    // It is written with the gateway's address.
    let subnet = |text: String| text.parse::<ipnet::IpNet>().ok().map(|net| net.trunc().to_string());
    [value("FLANNEL_SUBNET"), value("FLANNEL_IPV6_SUBNET")].into_iter().flatten().filter_map(subnet).collect()
}

fn make_namespace(client: &Client) -> hcn::Result<Guid> {
    let namespace = json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}});
    client.create(ObjectKind::Namespace, None, None, &namespace.to_string())
}

async fn blocking<T: Send + 'static>(call: impl FnOnce() -> hcn::Result<T> + Send + 'static) -> Result<T, CniError> {
    let outcome = tokio::task::spawn_blocking(call).await;
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(std::io::Error::other(error.to_string()).into()),
        Err(error) => Err(std::io::Error::other(error).into()),
    }
}
