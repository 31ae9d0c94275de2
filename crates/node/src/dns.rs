//! dns: the names of a cluster, followed at an API server and answered over UDP and TCP.

mod follower;
mod health;
mod mirrors;

use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::dns::forward::{self, Forwarder};
use ::dns::server::{CurrentZone, Responder, Server};
use ::dns::zone::Zone;
pub use ::dns::zone::{PodNames, Settings};
use arc_swap::ArcSwap;
use cluster::connect::{ConnectError, Source, connect};
use kube::Client;
use tokio::net::TcpListener;

use health::Health;
use mirrors::Mirrors;

/// Where a machine says which servers it asks.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// How dns is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the API server is reached.
    pub kubeconfig: Option<PathBuf>,
    /// Where to answer; nothing means port 53 of all addresses.
    pub listen: Vec<SocketAddr>,
    /// What can be chosen about names.
    pub settings: Settings,
    /// Who is asked for other names; nothing means whom the machine asks.
    pub forward: Vec<SocketAddr>,
    /// Where health and metrics are told.
    pub health: Option<SocketAddr>,
}

/// Why dns stopped.
#[derive(Debug)]
pub enum Error {
    /// Nothing says how to reach an API server.
    Connect(ConnectError),
    /// The operating system refused something.
    Io(String, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs dns until it is told to stop.
pub fn run(options: Options) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Io("start the runtime".into(), error))?;
    runtime.block_on(serve(options))
}

async fn serve(options: Options) -> Result<(), Error> {
    let stop = crate::manager::stop_signal().map_err(|error| Error::Io("listen to signals".into(), error))?;
    let source = match options.kubeconfig.clone() {
        Some(path) => Source::File { path, context: None },
        None => Source::Usual,
    };
    let client = connect(&source).await.map_err(Error::Connect)?;
    let agent = Agent::start(&client, options).await?;
    announce(&agent);
    tokio::select! {
        () = agent.run() => {}
        () = stop => tracing::info!("stopping"),
    }
    Ok(())
}

/// A server of names that listens, and follows a cluster once it is run.
pub struct Agent {
    server: Server,
    health_listener: Option<TcpListener>,
    health: Arc<Health>,
    mirrors: Mirrors,
    settings: Settings,
    zone: CurrentZone,
}

impl Agent {
    /// Listens, and begins to follow. Not outside of a runtime.
    pub async fn start(client: &Client, options: Options) -> Result<Self, Error> {
        let zone: CurrentZone = Arc::new(ArcSwap::from_pointee(Zone::unread(options.settings.clone())));
        let forwarder = Forwarder::new(servers_outside(&options));
        let responder = Arc::new(Responder::new(zone.clone(), forwarder));
        let mut server = Server::new(responder.clone());
        listen(&mut server, &options.listen)?;
        let health_listener = match options.health {
            Some(address) => {
                let listener = TcpListener::bind(address).await;
                Some(listener.map_err(|error| Error::Io(format!("listen on {address}"), error))?)
            }
            None => None,
        };
        let health = Arc::new(Health::new(zone.clone(), responder));
        let mirrors = Mirrors::start(client, options.settings.pods);
        Ok(Self { server, health_listener, health, mirrors, settings: options.settings, zone })
    }

    /// Where it answers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.server.addresses()
    }

    /// Where health and metrics are told.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers for as long as it is waited for.
    pub async fn run(self) {
        let telling = async {
            match self.health_listener {
                Some(listener) => health::serve(listener, self.health.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(self.server.run(), telling, follower::follow(self.mirrors, self.settings, self.zone, &self.health));
    }
}

/// Listens where it is told to; otherwise everywhere, as far as the machine has both families.
fn listen(server: &mut Server, addresses: &[SocketAddr]) -> Result<(), Error> {
    let io = |address: SocketAddr| move |error| Error::Io(format!("listen on {address}"), error);
    for address in addresses {
        server.listen(*address).map_err(io(*address))?;
    }
    if addresses.is_empty() {
        let [v4, v6] = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, forward::PORT)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, forward::PORT))];
        server.listen(v4).map_err(io(v4))?;
        if let Err(error) = server.listen(v6) {
            tracing::warn!(%error, "no answers over IPv6");
        }
    }
    Ok(())
}

/// Whom to ask for other names. Asking ourselves would never end, so we are left out.
fn servers_outside(options: &Options) -> Vec<SocketAddr> {
    let told = match options.forward.is_empty() {
        true => forward::read_servers(Path::new(RESOLV_CONF)).unwrap_or_default(),
        false => options.forward.clone(),
    };
    let usual = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, forward::PORT))];
    let own = if options.listen.is_empty() { &usual[..] } else { &options.listen };
    let (ourselves, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|server| forward::is_ourselves(*server, own));
    if !ourselves.is_empty() {
        tracing::warn!(?ourselves, "left out: asking ourselves would never end");
    }
    if others.is_empty() {
        tracing::warn!("there is no server to forward to; names outside of the cluster are refused until --forward names one");
    }
    others
}

/// Tells whoever started us where to ask.
fn announce(agent: &Agent) {
    let addresses: Vec<String> = agent.addresses().iter().map(ToString::to_string).collect();
    let health = agent.health_address().map_or_else(|| "nowhere".to_owned(), |address| format!("http://{address}"));
    let mut out = io::stdout().lock();
    let line = format!("ready: dns of {} answers on {} and tells its health at {health}", agent.settings.domain, addresses.join(", "));
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
    crate::manager::ready();
}
