//! A node of a lab: a host on the underlay, the programs that run on it, and how its pods get their network.

mod linux;
mod windows;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hcn::client::Client;
use hcn::profile::{Defect, Limit};
use hcs::registry::Hive;
use host::container::MountTable;
use host::namespace::Namespace;
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::cni::CniError;
use crate::daemon::{Daemon, Guest, NotReady, Program, Readiness};
use crate::foreign::{self, Facts};
use crate::names::Dns;
use crate::runtime::{Engine, Plain};
use crate::status::NodeStatus;
use crate::topology::{NodeSpec, Os, Topology};
use crate::underlay::Host;
use crate::wine::Wine;

/// A pod's network, once it is made.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Its id.
    pub(crate) id: String,
    /// Whose it is: Kubernetes namespace and name.
    pub(crate) pod: (String, String),
    /// Its network namespace.
    pub(crate) namespace: Namespace,
    /// Its addresses, with the length of their subnet.
    pub(crate) addresses: Vec<IpNet>,
    /// The id of its HCN namespace, on Windows.
    pub(crate) hcn: Option<hcn::Guid>,
    /// Whether it is the node's own.
    pub(crate) is_shared: bool,
}

/// What nodes need to know of the lab.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The topology.
    pub(crate) topology: Arc<Topology>,
    /// How agents reach the API.
    pub(crate) kubeconfig: PathBuf,
    /// What containers are made from.
    pub(crate) mounts: Arc<MountTable>,
    /// How many pods the manifests ask for.
    pub(crate) pods: usize,
}

/// A node.
pub(crate) struct LabNode {
    /// As the topology has it.
    pub(crate) spec: NodeSpec,
    /// Its place in the list of nodes.
    position: usize,
    /// Its namespace.
    pub(crate) namespace: Arc<Namespace>,
    path: PathBuf,
    surroundings: Surroundings,
    daemons: std::sync::Mutex<Vec<Daemon>>,
    plain: Arc<dyn Engine>,
    facts: Facts,
    wine: Option<Wine>,
    kind: Kind,
}

enum Kind {
    Windows(windows::Windows),
    Linux(linux::Linux),
}

impl LabNode {
    /// A node on which nothing runs yet.
    pub(crate) fn new(host: Host, position: usize, surroundings: Surroundings) -> std::io::Result<Self> {
        let spec = surroundings.topology.nodes[position].clone();
        let directory = directory(&spec.name);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("net-conf.json"), flannel_conf(&surroundings.topology).to_string())?;
        let namespace = Arc::new(host.namespace);
        let facts = Facts::of(&surroundings.topology, &surroundings.kubeconfig, position, &directory);
        let wine = spec.needs_wine().then(|| Wine::make(&directory)).transpose().map_err(std::io::Error::other)?;
        let kind = match spec.os {
            Os::Windows => {
                let mut windows = windows::Windows::new(&directory, namespace.clone(), position, &surroundings)?;
                if let Some(cni) = &spec.cni {
                    windows.call_others(|ours| foreign::plugins(cni, &facts, surroundings.topology.network_of(&spec), wine.as_ref(), ours));
                }
                Kind::Windows(windows)
            }
            Os::Linux => Kind::Linux(linux::Linux::new(&directory, namespace.clone())),
        };
        let plain = Arc::new(Plain::new(directory.join("containers"), surroundings.mounts.clone())?);
        Ok(Self { plain, spec, position, namespace, path: host.path, surroundings, daemons: Default::default(), facts, wine, kind })
    }

    /// Starts everything on it, one after the other, and waits until it is ready.
    pub(crate) async fn start(&self) -> Result<(), NotReady> {
        if let Some(wine) = &self.wine {
            self.run(wine.server(&self.spec.name)).await?;
        }
        match &self.kind {
            Kind::Windows(windows) => windows.start(self).await?,
            Kind::Linux(linux) => linux.start(self).await?,
        }
        // Somebody to be reached at the node's own addresses, which datagrams are answered from: a node has others besides.
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        let arguments = ["--udp-listen-addresses".to_owned(), addresses.join(",")];
        self.run(Program::role(&self.spec.name, "netexec", &arguments).ready_by(Readiness::Start)).await
    }

    /// Starts a program on the node, and waits until it is ready.
    async fn run(&self, program: Program) -> Result<(), NotReady> {
        let daemon = Daemon::start(program, Some(self.namespace.clone()));
        if let Ok(mut daemons) = self.daemons.lock() {
            daemons.push(daemon.clone());
        }
        daemon.ready().await
    }

    /// Starts the kube-proxy that the topology names, or else ours.
    async fn run_kube_proxy(&self, ours: Program, source_vips: &[String]) -> Result<(), NotReady> {
        if self.spec.kube_proxy.command.is_empty() {
            return self.run(ours).await;
        }
        let theirs = foreign::kube_proxy(&self.spec, &self.facts, self.wine.as_ref(), source_vips);
        self.run(theirs).await.map_err(|NotReady { cause, log }| NotReady { cause: format!("{cause}; {}", foreign::READINESS), log })
    }

    /// flanneld, as this node starts it.
    fn flanneld(&self, more: &[String]) -> Program {
        let file = |name: &str| directory(&self.spec.name).join(name).display().to_string();
        let mut arguments = strings(&["--os", self.spec.os.label(), "--kubeconfig-file"]);
        arguments.push(self.surroundings.kubeconfig.display().to_string());
        arguments.extend(["--net-config-path".to_owned(), file("net-conf.json"), "--subnet-file".to_owned(), file("subnet.env")]);
        arguments.extend(strings(&["--healthz-ip", "127.0.0.1", "--healthz-port", "10252", "--iface", "eth0"]));
        if has_exceptions(&self.spec, &self.surroundings.topology) {
            arguments.push("--ip-masq".to_owned());
        }
        arguments.extend_from_slice(more);
        let program = Program::role(&self.spec.name, "flanneld", &arguments).with("NODE_NAME", &self.spec.name);
        program.ready_by(Readiness::Http("127.0.0.1:10252", "/readyz"))
    }

    /// How long its kube-proxy waits from one sync to the next.
    fn sync_period(&self) -> String {
        sync_period(self.surroundings.topology.nodes.len(), processors(), self.surroundings.pods)
    }

    /// Gives a pod its network.
    pub(crate) async fn attach(&self, id: &str, pod: (String, String), dns: &Dns) -> Result<Sandbox, CniError> {
        match &self.kind {
            Kind::Windows(windows) => windows.attach(id, pod, dns).await,
            Kind::Linux(linux) => linux.attach(id, pod).await,
        }
    }

    /// Gives a pod the network of the node itself, if its build can do that.
    pub(crate) fn share(&self, id: &str, pod: (String, String)) -> Result<Sandbox, CniError> {
        let limit = Limit::NoHostNetworkPods;
        if self.spec.is_limited(limit) {
            let build = self.spec.profile().map_or("Windows", |profile| profile.windows);
            return Err(CniError::new(format!(
                "hostNetwork: {build} has {}; leave hostNetwork out, or use without: [{limit}]",
                limit.says()
            )));
        }
        Ok(Sandbox {
            id: id.to_owned(),
            pod,
            namespace: self.namespace.try_clone()?,
            addresses: self.surroundings.topology.node_addresses(self.position),
            hcn: None,
            is_shared: true,
        })
    }

    /// Takes a pod's network away.
    pub(crate) async fn detach(&self, sandbox: Sandbox) -> Result<(), CniError> {
        if sandbox.is_shared {
            return Ok(());
        }
        match &self.kind {
            Kind::Windows(windows) => windows.detach(sandbox).await,
            Kind::Linux(linux) => linux.detach(sandbox).await,
        }
    }

    /// What makes the containers of a pod: whoever shares the node's network is in no HCN namespace.
    pub(crate) fn engine(&self, sandbox: &Sandbox) -> &Arc<dyn Engine> {
        match &self.kind {
            Kind::Windows(windows) if !sandbox.is_shared => windows.engine(),
            _ => &self.plain,
        }
    }

    /// Its HNS, if it has one.
    pub(crate) fn hcn(&self) -> Option<Arc<Client>> {
        match &self.kind {
            Kind::Windows(windows) => Some(windows.hcn()),
            Kind::Linux(_) => None,
        }
    }

    /// Another HNS of its build beside its own, without some items and without a switch, for as long as the guest is kept.
    pub(crate) async fn hns_without(&self, items: &[&str]) -> Result<(Guest, Arc<Client>), NotReady> {
        match &self.kind {
            Kind::Windows(windows) => windows.hns_without(self, items).await,
            Kind::Linux(_) => Err(NotReady { cause: format!("{} is a Linux node, which has no HNS", self.spec.name), log: Vec::new() }),
        }
    }

    /// Adds a sandbox, has the plugin check it, and takes it away.
    pub(crate) async fn try_cni_check(&self) -> Result<(), CniError> {
        match &self.kind {
            Kind::Windows(windows) => windows.try_cni_check().await,
            Kind::Linux(_) => Err(CniError::new("a Linux node has no such plugin")),
        }
    }

    /// The registry of a container.
    pub(crate) fn registry(&self, id: &str) -> Result<Hive, String> {
        match &self.kind {
            Kind::Windows(windows) => windows.registry(id),
            Kind::Linux(_) => Err(format!("{} is a Linux node, where containers have no registry", self.spec.name)),
        }
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.surroundings.topology.node_addresses(self.position).iter().map(IpNet::addr).collect()
    }

    /// How it is.
    pub(crate) fn status(&self) -> NodeStatus {
        NodeStatus {
            name: self.spec.name.clone(),
            os: self.spec.os.label().to_owned(),
            build: match self.spec.os {
                Os::Windows => self.spec.build.clone().unwrap_or_else(|| "transom".to_owned()),
                Os::Linux => String::new(),
            },
            addresses: self.addresses(),
            subnets: self.surroundings.topology.node_subnets(self.position).iter().map(ToString::to_string).collect(),
            network: self.surroundings.topology.network_text_of(&self.spec),
            data_path: match &self.kind {
                Kind::Windows(windows) => windows.data_path(),
                Kind::Linux(_) => String::new(),
            },
            namespace: self.path.display().to_string(),
            daemons: self.daemons.lock().map(|daemons| daemons.iter().map(Daemon::status).collect()).unwrap_or_default(),
        }
    }
}

/// How many nodes a processor has without one being in another's way, and how many pods it takes for a sync to be felt.
const NODES_AT_EASE: usize = 2;
const PODS_AT_EASE: usize = 250;

/// How long a kube-proxy waits from one sync to the next, at least and at most.
const SHORTEST_PERIOD: Duration = Duration::from_millis(50);
const LONGEST_PERIOD: Duration = Duration::from_secs(4);

/// The socket of a Windows node's switch, among the node's files.
pub(crate) const SWITCH: &str = "vswitchd.sock";

/// Whether translation can have exceptions. If not, flanneld must not ask for them, and what is to be translated is listed instead.
fn has_exceptions(spec: &NodeSpec, topology: &Topology) -> bool {
    topology.overlay().is_none() || !spec.is_defective(Defect::OverlayOutBoundNatExceptions)
}

/// The files of a node.
pub(crate) fn directory(name: &str) -> PathBuf {
    Path::new("/run/lab/node").join(name)
}

/// What flanneld is told, on all nodes the same.
fn flannel_conf(topology: &Topology) -> Value {
    let range = |v4: bool| topology.cluster.pod_subnets.iter().find(|range| range.addr().is_ipv4() == v4);
    let mut conf = json!({"EnableIPv4": range(true).is_some(), "EnableIPv6": range(false).is_some()});
    if let Some(range) = range(true) {
        conf["Network"] = json!(range);
    }
    if let Some(range) = range(false) {
        conf["IPv6Network"] = json!(range);
    }
    conf["Backend"] = match topology.overlay() {
        Some(overlay) => json!({"Type": "vxlan", "Name": overlay.name(), "VNI": overlay.vni(), "Port": overlay.port()}),
        None => json!({"Type": "host-gw", "Name": "cbr0"}),
    };
    conf
}

/// How many processors the machine has.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How long a kube-proxy waits from one sync to the next, as an option has it. Every sync looks at all Services, so that each takes the
/// more changes along at once, the more of them share a processor and the more there is to look at.
fn sync_period(nodes: usize, processors: usize, pods: usize) -> String {
    let shares = nodes.saturating_sub(NODES_AT_EASE * processors).max(1);
    let factor = shares.saturating_mul(1 + pods / PODS_AT_EASE);
    let period = SHORTEST_PERIOD.saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX)).min(LONGEST_PERIOD);
    format!("{}ms", period.as_millis())
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_wait_longer() {
        let table = [
            (1, 2, 0, "50ms"),
            (3, 2, 12, "50ms"),
            (8, 2, 200, "200ms"),
            (20, 2, 200, "800ms"),
            (20, 2, 500, "2400ms"),
            (20, 2, 1000, "4000ms"),
            (100, 2, 50, "4000ms"),
            (20, 16, 200, "50ms"),
        ];
        for (nodes, processors, pods, expected) in table {
            assert_eq!(sync_period(nodes, processors, pods), expected, "{nodes} nodes, {processors} processors, {pods} pods");
        }
    }
}
