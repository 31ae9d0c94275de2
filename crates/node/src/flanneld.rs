//! flanneld as a daemon: it follows the Nodes, has the agent make them true, and tells how it goes.
//!
//! ```text
//!  API server ── Nodes ──► mirror ──► agent: one round, on a thread that may block ──► HNS or the kernel
//!      ▲                                   │ what is to be known of this node
//!      └────── annotations, condition ◄────┤
//!      └────── Event about the Node ◄──────┤ what is not as it should be
//!                                          └──► log, /readyz
//! ```
//!
//! Nothing that goes wrong ends it. What works stays as it is, and the next round tries again: at once when the cluster changes, less
//! and less often while there is trouble, and every few seconds otherwise, in case somebody has changed HNS or the kernel.

mod cluster_side;
mod health;
#[cfg(target_os = "linux")]
mod linux;
mod own_pod;
#[cfg(windows)]
mod windows;

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::connect::Source;
use cluster::mirror::{Config, Health, Mirror};
use flannel::agent::{Agent, Round, Settings};
use flannel::backend::{Backend, hns};
use flannel::net_conf::BackendConf;
use flannel::trouble::{Subject, Trouble};
use hcn::Hcn;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

use cluster_side::ClusterSide;
use health::Report;
pub use own_pod::OwnPod;

/// How often everything is looked at although nothing is known to have changed.
const RESYNC: Duration = Duration::from_secs(5);

/// How soon it is tried again when there is trouble, at first and at last.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LAST: Duration = Duration::from_secs(15);

/// How long changes are gathered before a round, so that a hundred of them are one.
const GATHER: Duration = Duration::from_millis(50);

/// What makes leases true.
pub enum Target {
    /// An HNS: this is a Windows node, or one whose networking is our HNS.
    Hns(Arc<dyn Hcn>),
    /// The kernel: this is a Linux node.
    Kernel,
}

/// How flanneld is run.
pub struct Options {
    /// Where it is said how the API server is reached.
    pub source: Source,
    /// The agent's settings.
    pub settings: Settings,
    /// The pod that this runs in. If it is given, its node is this node, whatever the settings say.
    pub pod: Option<OwnPod>,
    /// Flags that were given and change nothing.
    pub ignored: Vec<&'static str>,
    /// What makes leases true.
    pub target: Target,
    /// Where `/healthz` and `/readyz` are served.
    pub health: Option<SocketAddr>,
    /// Tell the cluster that the node has a network.
    pub announce: bool,
}

/// Why flanneld could not be started.
#[derive(Debug)]
pub enum Error {
    /// There is no such backend on this system.
    Unsupported(String),
    /// The operating system refused something.
    Io(String, std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(text) => f.write_str(text),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs flanneld until it is told to stop. What it has made stays.
pub fn run(options: Options) -> Result<(), Error> {
    let backend = backend(&options)?;
    for flag in &options.ignored {
        tracing::info!("--{flag} means nothing here");
    }
    for key in &options.settings.net_conf.ignored {
        tracing::warn!("net-conf.json: {key} means nothing here");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Io("start the runtime".into(), error))?;
    let outcome = runtime.block_on(serve(options, backend));
    // A round that hangs in HNS does not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn backend(options: &Options) -> Result<Box<dyn Backend>, Error> {
    match (&options.target, &options.settings.net_conf.backend) {
        (Target::Hns(hcn), BackendConf::Vxlan(conf)) => Ok(Box::new(hns::Vxlan::new(hcn.clone(), conf))),
        (Target::Hns(hcn), BackendConf::HostGw(conf)) => Ok(Box::new(hns::HostGw::new(hcn.clone(), system::router(), conf))),
        (Target::Kernel, conf) => system::kernel_backend(conf),
    }
}

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(windows)]
use windows as system;

async fn serve(options: Options, backend: Box<dyn Backend>) -> Result<(), Error> {
    let signal = crate::manager::stop_signal().map_err(|error| Error::Io("listen to signals".into(), error))?;
    let report = Arc::new(Report::default());
    if let Some(address) = options.health {
        health::serve(address, report.clone()).await?;
    }
    tokio::select! {
        () = follow(options, backend, report) => {}
        () = signal => {}
    }
    tracing::info!("stopping; what is there stays");
    crate::manager::stopping();
    Ok(())
}

/// Finds out which node this is, and follows the cluster as that.
async fn follow(mut options: Options, backend: Box<dyn Backend>, report: Arc<Report>) {
    let mut connector = Connector { source: options.source, report: report.clone(), retry: RETRY_FIRST };
    if let Some(pod) = &options.pod {
        options.settings.node_name = connector.node_of(pod).await;
        tracing::info!(node = options.settings.node_name, %pod, "this node is the pod's");
    }
    let side = ClusterSide::new(options.settings.node_name.clone(), options.settings.prefix.clone(), options.announce);
    let agent = Agent::new(options.settings, backend, Box::new(system::Machine));
    let follower = Follower { agent: Some(agent), side, report, connector, is_known: false, last: None, addresses: None };
    follower.run().await;
}

/// Whoever reaches the API server, as often as it takes.
struct Connector {
    source: Source,
    report: Arc<Report>,
    retry: Duration,
}

impl Connector {
    /// A client. What is missing for one may still come, such as a kubeconfig that somebody is about to write.
    async fn client(&mut self) -> Client {
        loop {
            match cluster::connect::connect(&self.source).await {
                Ok(client) => return client,
                Err(error) => self.wait(Trouble::new(Subject::Api, error.to_string())).await,
            }
        }
    }

    /// The node of a pod.
    async fn node_of(&mut self, pod: &OwnPod) -> String {
        loop {
            match pod.node(self.client().await).await {
                Ok(name) => {
                    self.retry = RETRY_FIRST;
                    return name;
                }
                Err(cause) => self.wait(Trouble::new(Subject::Node, cause)).await,
            }
        }
    }

    async fn wait(&mut self, trouble: Trouble) {
        self.report.set(false, vec![trouble], Vec::new());
        tokio::time::sleep(self.next_retry()).await;
    }

    fn next_retry(&mut self) -> Duration {
        let retry = self.retry;
        self.retry = (retry * 2).min(RETRY_LAST);
        retry
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// All is as it should be.
    Well,
    /// Something is not.
    Troubled,
    /// This node has another address now, or an answer did not come: connections may lead nowhere, and nobody would say so.
    Disconnected,
}

/// Whoever follows the cluster.
struct Follower {
    /// Away while a round runs.
    agent: Option<Agent>,
    side: ClusterSide,
    report: Arc<Report>,
    connector: Connector,
    /// Whether it was told that all is well.
    is_known: bool,
    /// When the last round was, if it went well.
    last: Option<Instant>,
    /// This node's addresses in the last round.
    addresses: Option<Vec<IpAddr>>,
}

impl Follower {
    async fn run(mut self) {
        loop {
            let client = self.connector.client().await;
            self.follow(&client).await;
            tracing::info!("connecting to the API server anew");
        }
    }

    /// Follows the cluster until the connection is no good any more.
    async fn follow(&mut self, client: &Client) {
        let mirror: Mirror<Node> = Mirror::start(Api::all(client.clone()), Config::default());
        let mut changes = mirror.health();
        loop {
            changes.borrow_and_update();
            let pause = match self.step(client, &mirror).await {
                Step::Well => RESYNC,
                Step::Troubled => self.connector.next_retry(),
                Step::Disconnected => return,
            };
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(pause) => self.last = None,
            }
        }
    }

    /// One round, if there is something to do, and what is to be told.
    async fn step(&mut self, client: &Client, mirror: &Mirror<Node>) -> Step {
        let health = mirror.health().borrow().clone();
        let api = api_trouble(&health);
        let mut round = Round { has_file: self.report.has_file(), ..Round::default() };
        let mut troubles: Vec<Trouble> = api.into_iter().collect();
        if health.is_complete {
            let nodes = mirror.all();
            if self.is_up_to_date(&nodes, troubles.is_empty()) {
                return Step::Well;
            }
            round = self.round(client, nodes).await;
            if self.has_moved(&round) {
                return Step::Disconnected;
            }
            match troubles.is_empty() {
                true => troubles.extend(self.side.publish(client, &round).await),
                // A watch that is resumed says nothing until something happens. So something has to.
                false => self.side.touch(client, &round).await,
            }
        }
        troubles.extend(round.troubles);
        self.settle(client, troubles, round.has_file, round.complaints).await
    }

    /// Tells how it went.
    async fn settle(&mut self, client: &Client, troubles: Vec<Trouble>, has_file: bool, complaints: Vec<String>) -> Step {
        let is_well = troubles.is_empty() && has_file;
        if is_well {
            self.connector.retry = RETRY_FIRST;
            self.announce_once();
        }
        self.last = is_well.then(Instant::now);
        let api_answers = !troubles.iter().any(|trouble| trouble.subject == Subject::Api);
        self.report.set(has_file, troubles.clone(), complaints.clone());
        if api_answers {
            self.side.tell(client, &troubles, &complaints).await;
        }
        match (is_well, self.side.take_silence()) {
            (_, true) => Step::Disconnected,
            (true, false) => Step::Well,
            (false, false) => Step::Troubled,
        }
    }

    /// Whether this node has other addresses than in the last round.
    fn has_moved(&mut self, round: &Round) -> bool {
        let Some(publication) = &round.publication else { return false };
        let before = self.addresses.replace(publication.addresses.clone());
        before.is_some_and(|before| before != publication.addresses)
    }

    /// Whether a round would find nothing new. Nodes change all the time by what does not concern us.
    fn is_up_to_date(&self, nodes: &[Arc<Node>], api_is_well: bool) -> bool {
        let is_new = self.agent.as_ref().is_none_or(|agent| agent.is_new(nodes));
        !is_new && api_is_well && self.last.is_some_and(|last| last.elapsed() < RESYNC)
    }

    /// Has the agent do a round, on a thread that may block. If it does for long, that is told.
    async fn round(&mut self, client: &Client, nodes: Vec<Arc<Node>>) -> Round {
        let Some(mut agent) = self.agent.take() else { return Round::default() };
        self.report.begin();
        let mut done = tokio::task::spawn_blocking(move || {
            let round = agent.round(&nodes);
            (agent, round)
        });
        let done = match tokio::time::timeout(health::ROUND_LIMIT, &mut done).await {
            Ok(done) => done,
            Err(_) => {
                let silent = Trouble::new(Subject::Hns, format!("it has not answered for {} s", health::ROUND_LIMIT.as_secs()));
                tracing::warn!("{silent}");
                self.side.tell(client, &[silent], &[]).await;
                done.await
            }
        };
        // A panic in it would be a bug; ending is then better than following without an agent.
        let (agent, round) = done.expect("a round does not panic");
        self.agent = Some(agent);
        self.report.end();
        round
    }

    /// Tells whoever started us that the node has a network: systemd by its socket, everybody else by a line.
    fn announce_once(&mut self) {
        if std::mem::replace(&mut self.is_known, true) {
            return;
        }
        tracing::info!("ready");
        let mut out = std::io::stdout().lock();
        _ = writeln!(out, "ready: flanneld has given the node its network").and_then(|()| out.flush());
        crate::manager::ready();
    }
}

/// What is wrong with the API server, as far as the mirror can tell.
fn api_trouble(health: &Health) -> Option<Trouble> {
    let text = match (&health.trouble, health.is_complete) {
        (None, true) => return None,
        (None, false) => "the API server has not answered yet".to_owned(),
        (Some(trouble), true) => format!("the API server does not answer: {}; what was known last stays in force", trouble.cause),
        (Some(trouble), false) => format!("the API server does not answer: {}; nothing is known of the cluster yet", trouble.cause),
    };
    Some(Trouble::new(Subject::Api, text))
}
