//! A lab from its beginning: step by step, each with its name and its time.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use host::container::MountTable;
use host::namespace::Namespace;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

use tokio::net::UnixStream;

use crate::api::{self, ApiError, Applier};
use crate::control::Reply;
use crate::daemon::{Daemon, NotReady, Program, Readiness};
use crate::event::Recorder;
use crate::existing::Existing;
use crate::join::{self, Joined};
use crate::kubelet::{Context, Kubelet};
use crate::node::{LabNode, Surroundings, processors};
use crate::owner::Owner;
use crate::readiness;
use crate::relay::Target;
use crate::status::{ClusterStatus, PodStatus, Status};
use crate::topology::{self, Manifest, Mode, Plan, Topology};
use crate::underlay::{Underlay, UnderlayError};

/// How those inside reach the API.
pub(crate) const KUBECONFIG: &str = "/run/lab/kubeconfig";

/// How many pods start at once, for every processor. A pod that starts waits for others some of the time.
const PODS_AT_ONCE: usize = 4;

/// The port of the API inside.
const API_PORT: u16 = 6443;

/// What a lab has of the machine.
pub(crate) struct Outside {
    /// The lab's name.
    pub(crate) name: String,
    /// Its directory on the machine.
    pub(crate) directory: PathBuf,
    /// A listener on the machine's loopback, for the API.
    pub(crate) api: TcpListener,
}

/// Why a lab could not be made.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: String,
    pub(crate) log: Vec<String>,
}

impl Failure {
    pub(crate) fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), log: Vec::new() }
    }
}

impl From<NotReady> for Failure {
    fn from(NotReady { cause, log }: NotReady) -> Self {
        Self { cause, log }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::new(error.0)
    }
}

impl From<UnderlayError> for Failure {
    fn from(error: UnderlayError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("{error}{}", crate::launch::room(&error)))
    }
}

/// Tells how it goes.
#[derive(Clone)]
pub(crate) struct Progress(UnboundedSender<Reply>);

impl Progress {
    /// Does a step, and tells of it.
    async fn step<T>(&self, name: &str, work: impl Future<Output = Result<(T, String), Failure>>) -> Result<T, Failure> {
        let begin = Instant::now();
        // Nobody listens any more where the sending fails, and then the whole is given up anyway.
        _ = self.0.send(Reply::Begun { step: name.to_owned() });
        let (value, note) = work.await?;
        let milliseconds = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        _ = self.0.send(Reply::Ended { step: name.to_owned(), milliseconds, note });
        Ok(value)
    }

    /// Tells how far a step has come.
    pub(crate) fn tell(&self, note: String) {
        _ = self.0.send(Reply::Going { note });
    }
}

/// A lab.
pub(crate) struct Lab {
    name: String,
    api: String,
    topology: Arc<Topology>,
    underlay: Underlay,
    nodes: Vec<Arc<LabNode>>,
    client: Client,
    applier: tokio::sync::Mutex<Applier>,
    kubelets: Vec<Arc<Kubelet>>,
    owner: Option<Owner>,
    _others: Vec<Daemon>,
    _life: Option<UnixStream>,
}

impl Lab {
    /// Makes everything that a file says, with an API of its own or in a cluster that is there already.
    pub(crate) async fn up(
        text: &str,
        existing: Option<&Existing>,
        outside: &Outside,
        progress: UnboundedSender<Reply>,
    ) -> Result<Arc<Self>, Failure> {
        let progress = Progress(progress);
        let Plan { mut topology, manifests } = topology::read(text, &|_| Ok(())).map_err(|mistake| Failure::new(mistake.to_string()))?;
        crate::foreign::check(&topology).map_err(Failure::new)?;
        if topology.nodes.iter().any(crate::topology::NodeSpec::needs_wine) {
            crate::wine::own_temporary_files().map_err(|obstacle| Failure::new(obstacle.to_string()))?;
        }
        let (underlay, hosts) = progress.step("underlay", make_underlay(&topology)).await?;
        let server = start_outside(&topology, &underlay)?;
        let mut others = vec![server];
        if topology.has_mode(Mode::L2tunnel) {
            others.push(progress.step("fabric", start_fabric(&topology, &hosts)).await?);
        }
        let TheApi { server, url, client, owner, life } = progress.step("Kubernetes API", start_api(&topology, existing, outside)).await?;
        others.extend(server);
        let mut applier = Applier::new(client.clone(), owner.clone());
        if let Some(owner) = &owner {
            topology.cluster.dns_address = Some(join::dns_address(&mut applier, &topology, owner).await?);
            join::keep_alive(client.clone(), &topology);
        }
        let topology = Arc::new(topology);
        let mounts = Arc::new(MountTable::now()?);
        let pods = manifests.iter().map(Manifest::pods).fold(0, usize::saturating_add);
        let surroundings = Surroundings { topology: topology.clone(), kubeconfig: KUBECONFIG.into(), mounts, pods };
        let mut nodes = Vec::new();
        for (position, host) in hosts.into_iter().enumerate() {
            nodes.push(Arc::new(LabNode::new(host, position, surroundings.clone())?));
        }
        progress.step("nodes", start_nodes(&client, &topology, &nodes, owner.as_ref())).await?;
        let kubelets = progress.step("kubelets", start_kubelets(&client, &topology, &nodes, owner.as_ref())).await?;
        progress
            .step("manifests", async {
                for manifest in crate::system::manifests(&topology, owner.as_ref()).iter().chain(&manifests) {
                    applier.apply(manifest).await?;
                }
                Ok(((), format!("{} objects", manifests.len())))
            })
            .await?;
        let lab = Self {
            name: outside.name.clone(),
            api: url,
            topology,
            underlay,
            nodes,
            client: client.clone(),
            applier: tokio::sync::Mutex::new(applier),
            kubelets,
            owner,
            _others: others,
            _life: life,
        };
        progress.step("pods", readiness::wait(&client, lab.owner.as_ref(), &progress)).await?;
        Ok(Arc::new(lab))
    }

    /// Applies the manifests of a file.
    pub(crate) async fn apply(&self, text: &str) -> Result<(), Failure> {
        let plan = topology::read(text, &|_| Ok(())).map_err(|mistake| Failure::new(mistake.to_string()))?;
        self.apply_all(&plan.manifests).await
    }

    /// Applies manifests of our own.
    pub(crate) async fn apply_all(&self, manifests: &[Manifest]) -> Result<(), Failure> {
        let mut applier = self.applier.lock().await;
        for manifest in manifests {
            applier.apply(manifest).await?;
        }
        Ok(())
    }

    /// The topology.
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The API.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A node.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<LabNode>> {
        self.nodes.iter().find(|node| node.spec.name == name)
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> &[Arc<LabNode>] {
        &self.nodes
    }

    /// The network namespace of the host outside.
    pub(crate) fn outside(&self) -> std::io::Result<Arc<Namespace>> {
        self.underlay.outside().namespace.try_clone().map(Arc::new)
    }

    /// The pods of all nodes, and how they are.
    pub(crate) fn pods(&self) -> Vec<PodStatus> {
        self.kubelets.iter().flat_map(|kubelet| kubelet.status()).collect()
    }

    /// The kubelet of a node.
    pub(crate) fn kubelet(&self, name: &str) -> Option<&Arc<Kubelet>> {
        self.kubelets.iter().find(|kubelet| kubelet.node().spec.name == name)
    }

    /// What there is and how it is.
    pub(crate) async fn status(&self) -> Result<Status, Failure> {
        let topology = &self.topology;
        let texts = |nets: &[ipnet::IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
        Ok(Status {
            name: self.name.clone(),
            api: self.api.clone(),
            nodes: self.nodes.iter().map(|node| node.status()).collect(),
            cluster: ClusterStatus {
                network: topology.network_text(),
                domain: topology.cluster.domain.clone(),
                pod_subnets: texts(&topology.cluster.pod_subnets),
                service_subnets: texts(&topology.cluster.service_subnets),
                dns: Some(topology.dns_address()),
            },
            router: texts(&topology.router()),
            far_router: texts(&topology.far_router()),
            outside: topology.outside().iter().map(ipnet::IpNet::addr).collect(),
            pods: self.pods(),
            services: crate::services::list(&self.client).await?,
        })
    }
}

/// Lets the host outside answer, and know names.
fn start_outside(topology: &Topology, underlay: &Underlay) -> Result<Daemon, Failure> {
    let addresses: Vec<std::net::IpAddr> = topology.outside().iter().map(ipnet::IpNet::addr).collect();
    let namespace = &underlay.outside().namespace;
    crate::outside::serve_names(namespace, &addresses)?;
    let program = Program::role("outside", "netexec", &[]).ready_by(Readiness::Start);
    Ok(Daemon::start(program, Some(Arc::new(namespace.try_clone()?))))
}

async fn make_underlay(topology: &Topology) -> Result<((Underlay, Vec<crate::underlay::Host>), String), Failure> {
    let underlay = Underlay::make(topology)?;
    let mut hosts = Vec::new();
    for position in 0..topology.nodes.len() {
        hosts.push(underlay.add_node(topology, position)?);
    }
    underlay.lead(topology)?;
    let note = format!("{} nodes, a router, a host outside", hosts.len());
    Ok(((underlay, hosts), note))
}

/// Puts the fabric of a cloud between the nodes.
async fn start_fabric(topology: &Topology, hosts: &[crate::underlay::Host]) -> Result<(Daemon, String), Failure> {
    Ok((crate::fabric::start(topology, hosts).await?, format!("{} links", hosts.len() + 1)))
}

/// The API that a lab has.
struct TheApi {
    /// The embedded one.
    server: Option<Daemon>,
    /// Where it is on the machine.
    url: String,
    client: Client,
    /// By what its objects are told from those of others, in a cluster that is there already.
    owner: Option<Owner>,
    life: Option<UnixStream>,
}

/// Starts the embedded API, or makes a way to one that is there already.
async fn start_api(topology: &Topology, existing: Option<&Existing>, outside: &Outside) -> Result<(TheApi, String), Failure> {
    let address = SocketAddr::new(topology.router()[0].addr(), API_PORT);
    let api = match existing {
        Some(existing) => {
            let Joined { client, owner, life } = join::start(existing, address, outside).await?;
            TheApi { server: None, url: existing.server().to_owned(), client, owner: Some(owner), life: Some(life) }
        }
        None => {
            let (server, client) = start_own_api(topology, address, outside).await?;
            let url = format!("https://{}", outside.api.local_addr()?);
            TheApi { server: Some(server), url, client, owner: None, life: None }
        }
    };
    let note = api.url.clone();
    Ok((api, note))
}

/// Starts the embedded API, and lets it be reached from the machine.
async fn start_own_api(topology: &Topology, address: SocketAddr, outside: &Outside) -> Result<(Daemon, Client), Failure> {
    let ranges: Vec<String> = topology.cluster.service_subnets.iter().map(ToString::to_string).collect();
    let arguments = [
        "serve",
        "--listen",
        &address.to_string(),
        "--state-dir",
        "/run/lab/api",
        "--kubeconfig",
        KUBECONFIG,
        "--service-cidr",
        &ranges.join(","),
    ];
    let server = Daemon::start(Program::role("cluster", "api", &arguments.map(str::to_owned)), None);
    server.ready().await?;
    let machine = outside.api.local_addr()?;
    let written = write_kubeconfig(&outside.directory.join("kubeconfig"), address, machine, &outside.name);
    written.map_err(|error| Failure::new(format!("could not write the kubeconfig: {error}{}", crate::launch::room(&error))))?;
    crate::relay::start(outside.api.try_clone()?, Target::Inside(address))?;
    let client = api::client(Path::new(KUBECONFIG)).await?;
    Ok((server, client))
}

/// The kubeconfig for the machine: the same, but for the address.
fn write_kubeconfig(path: &Path, inside: SocketAddr, machine: SocketAddr, name: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let text = std::fs::read_to_string(KUBECONFIG)?.replace(&format!("https://{inside}"), &format!("https://{machine}"));
    let mut file = std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    writeln!(file, "# The lab {name:?} of transom; it goes with the lab.")?;
    file.write_all(text.as_bytes())
}

async fn start_nodes(client: &Client, topology: &Topology, nodes: &[Arc<LabNode>], owner: Option<&Owner>) -> Result<((), String), Failure> {
    try_join_all((0..nodes.len()).map(|position| api::register(client, topology, position, owner))).await?;
    try_join_all(nodes.iter().map(|node| node.start())).await?;
    let names: Vec<&str> = nodes.iter().map(|node| node.spec.name.as_str()).collect();
    Ok(((), names.join(", ")))
}

/// Starts whoever makes pods of what the API says.
async fn start_kubelets(
    client: &Client,
    topology: &Arc<Topology>,
    nodes: &[Arc<LabNode>],
    owner: Option<&Owner>,
) -> Result<(Vec<Arc<Kubelet>>, String), Failure> {
    let turns = Arc::new(Semaphore::new(processors() * PODS_AT_ONCE));
    let events = Recorder::start(client.clone());
    let kubelet = |node: &Arc<LabNode>| {
        let (events, turns) = (events.of_node(&node.spec.name), turns.clone());
        let context = Context { node: node.clone(), client: client.clone(), topology: topology.clone(), turns, events };
        Arc::new(Kubelet::start(context))
    };
    let kubelets = nodes.iter().map(kubelet).collect();
    crate::scheduler::start(client.clone(), topology.clone(), events.clone(), owner.cloned());
    crate::cloud::start(client.clone(), topology.clone(), owner.cloned());
    Ok((kubelets, String::new()))
}
