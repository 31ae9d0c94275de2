//! kube-proxy: between an API server and an HNS or the kernel, with its health and its metrics.

mod attended;
#[cfg(target_os = "linux")]
mod datagrams;
mod event;
mod health;
mod health_check;
mod hns;
#[cfg(target_os = "linux")]
mod kernel;
mod metrics;
mod mirrors;
#[cfg(not(target_os = "linux"))]
mod no_kernel;
mod plane;
mod worker;

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use cluster::connect::{ConnectError, Source, connect};
pub use proxy::config;
use proxy::config::{ConfigError, Configuration};
use proxy::desired::Setting;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use attended::Attended;
use event::Recorder;
use health::Health;
use metrics::Metrics;
use mirrors::Mirrors;
#[cfg(not(target_os = "linux"))]
use no_kernel as kernel;
use plane::Hns;
pub use plane::Target;
use worker::{Below, Worker};

/// How kube-proxy is run.
pub struct Options {
    /// Its configuration.
    pub configuration: Configuration,
    /// What it drives.
    pub target: Target,
}

/// Why kube-proxy stopped.
#[derive(Debug)]
pub enum Error {
    /// The configuration makes no sense.
    Configuration(ConfigError),
    /// Nothing says how to reach an API server.
    Connect(ConnectError),
    /// The operating system refused something.
    Io(String, std::io::Error),
    /// The kernel keeps what should go.
    CleanUp(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
            Self::CleanUp(cause) => f.write_str(cause),
        }
    }
}

impl std::error::Error for Error {}

/// Runs kube-proxy until it is told to stop.
pub fn run(options: Options) -> Result<(), Error> {
    let checked = match options.target {
        Target::Hns(_) => options.configuration.check(),
        Target::Kernel => options.configuration.check_for_kernel(),
    };
    checked.map_err(Error::Configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Io("start the runtime".into(), error))?;
    let outcome = runtime.block_on(serve(options));
    // A call to HNS may take as long as it likes, and nobody waits for it any more.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

/// Takes away what a kube-proxy on the kernel has left.
pub fn clean_up() -> Result<(), Error> {
    kernel::clean_up().map_err(Error::CleanUp)
}

async fn serve(options: Options) -> Result<(), Error> {
    let Options { configuration, target } = options;
    let mode = match target {
        Target::Hns(_) => "kernelspace",
        Target::Kernel => "nftables",
    };
    let stop = crate::manager::stop_signal().map_err(|error| Error::Io("listen to signals".into(), error))?;
    let source = match configuration.kubeconfig() {
        Some(path) => Source::File { path, context: None },
        None => Source::Usual,
    };
    let client = connect(&source).await.map_err(Error::Connect)?;
    let node_name = node_name(&configuration)?;
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::new(configuration.iptables.sync_period, metrics.clone()));
    let healthz = listen(configuration.healthz_address().map_err(Error::Configuration)?).await?;
    let told = listen(configuration.metrics_address().map_err(Error::Configuration)?).await?;
    let bound = |listener: &Option<TcpListener>| listener.as_ref().and_then(|listener| listener.local_addr().ok());
    announce(&node_name, bound(&healthz), bound(&told));
    if let Some(listener) = healthz {
        tokio::spawn(health::serve(listener, health.clone()));
    }
    if let Some(listener) = told {
        tokio::spawn(metrics::serve(listener, metrics.clone(), health.clone(), configuration.clone(), mode));
    }
    let recorder = Recorder::start(client.clone(), node_name.clone());
    recorder.node("Normal", "Starting", "");
    let mirrors = Mirrors::start(&client, &node_name);
    // The kernel says nothing of itself, and nobody hangs up.
    let (_silent, silence) = mpsc::unbounded_channel();
    let (below, news) = match target {
        Target::Hns(hcn) => {
            let news = hns::follow(hcn.clone());
            (on_hns(&configuration, Arc::new(Attended::new(hcn))).map_err(Error::Configuration)?, news)
        }
        Target::Kernel => (on_kernel(), silence),
    };
    let worker = Worker::new(configuration, below, mirrors, health, metrics, recorder).map_err(Error::Configuration)?;
    tokio::select! {
        () = worker.run(news) => {}
        () = stop => tracing::info!("stopping; what is there stays as it is"),
    }
    Ok(())
}

/// Services by HNS.
fn on_hns(configuration: &Configuration, hcn: Arc<Attended>) -> Result<Below, ConfigError> {
    let winkernel = &configuration.winkernel;
    let setting = Setting {
        network: configuration.network_name()?,
        source_vips: configuration.source_vips()?,
        dsr: winkernel.enable_dsr,
        health_check_endpoint: winkernel.forward_health_check_vip.then(|| winkernel.root_hns_endpoint_name.clone()),
        ..Setting::default()
    };
    let driven = hcn.clone();
    let make = Box::new(move |setting| Box::new(Hns::new(driven.clone(), setting)) as Box<dyn plane::Plane>);
    Ok(Below { make, hcn: Some(hcn), setting })
}

/// Services by the kernel.
fn on_kernel() -> Below {
    kernel::look_at_settings();
    Below { make: Box::new(|setting| Box::new(kernel::Kernel::new(setting))), hcn: None, setting: Setting::default() }
}

/// The node's name: the one that is configured, or the machine's, as Kubernetes spells them.
fn node_name(configuration: &Configuration) -> Result<String, Error> {
    let name = match configuration.hostname_override.trim() {
        "" => hostname::get().map_err(|error| Error::Io("read the machine's name".into(), error))?.to_string_lossy().into_owned(),
        name => name.to_owned(),
    };
    Ok(name.trim().to_lowercase())
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, Error> {
    let Some(address) = address else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).map_err(|error| Error::Io(format!("listen on {address}"), error))
}

/// Tells whoever started us where to ask.
fn announce(node: &str, health: Option<SocketAddr>, metrics: Option<SocketAddr>) {
    let at = |address: Option<SocketAddr>| address.map_or_else(|| "nowhere".to_owned(), |address| format!("http://{address}"));
    let mut out = std::io::stdout().lock();
    let line = format!("ready: kube-proxy of node {node} tells its health at {} and its metrics at {}", at(health), at(metrics));
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
    crate::manager::ready();
}
