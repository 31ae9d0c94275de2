//! kube-proxy: the proxier between an API server and an HNS, with its health and its metrics.

mod attended;
mod event;
mod health;
mod health_check;
mod hns;
mod metrics;
mod mirrors;
mod worker;

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use ::hcn::Hcn;
use cluster::connect::{ConnectError, Source, connect};
pub use proxy::config;
use proxy::config::{ConfigError, Configuration};
use tokio::net::TcpListener;

use attended::Attended;
use event::Recorder;
use health::Health;
use metrics::Metrics;
use mirrors::Mirrors;
use worker::Worker;

/// How kube-proxy is run.
pub struct Options {
    /// Its configuration.
    pub configuration: Configuration,
    /// The HNS it drives.
    pub hcn: Arc<dyn Hcn>,
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs kube-proxy until it is told to stop.
pub fn run(options: Options) -> Result<(), Error> {
    options.configuration.check().map_err(Error::Configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Io("start the runtime".into(), error))?;
    let outcome = runtime.block_on(serve(options));
    // A call to HNS may take as long as it likes, and nobody waits for it any more.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

async fn serve(options: Options) -> Result<(), Error> {
    let Options { configuration, hcn } = options;
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
        tokio::spawn(metrics::serve(listener, metrics.clone(), health.clone(), configuration.clone()));
    }
    let recorder = Recorder::start(client.clone(), node_name.clone());
    recorder.node("Normal", "Starting", "");
    let mirrors = Mirrors::start(&client, &node_name);
    let news = hns::follow(hcn.clone());
    let worker = Worker::new(configuration, Attended::new(hcn), mirrors, health, metrics, recorder).map_err(Error::Configuration)?;
    tokio::select! {
        () = worker.run(news) => {}
        () = stop => tracing::info!("stopping; load balancers stay as they are"),
    }
    Ok(())
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
