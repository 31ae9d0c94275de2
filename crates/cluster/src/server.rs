//! The API server: objects in a store, over HTTPS, in the words of Kubernetes.
//!
//! ```text
//!   client ─► http (TLS, who asks, in which form) ─► operation ─► draft ─► journal (one fsync for a batch) ─► published state
//!                                                                                                  │
//!   watchers and controllers follow the history in the published state ◄──────────────────────────┘
//! ```
//!
//! Documents have no types here: a table of [resources](resource) says what each kind must look like, and everything else is
//! the same for all of them.

mod access;
mod allocation;
mod body;
mod controller;
mod diff;
mod discovery;
mod document;
mod field;
mod http;
mod media;
mod name;
mod openapi;
mod operation;
mod patch;
mod quantity;
mod query;
mod resource;
mod route;
mod schema;
mod selector;
mod setup;
mod status;
mod store;
mod table;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::net::TcpListener;

pub use journal::JournalError;

use access::Access;
use allocation::Ranges;
use http::Front;
use operation::Api;
use store::Store;

/// How the server is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Where objects, keys and the token are kept.
    pub state_dir: PathBuf,
    /// A kubeconfig to write for the administrator.
    pub kubeconfig: Option<PathBuf>,
    /// The ranges that Services get their addresses from: one, or one of each family.
    pub service_cidrs: Vec<IpNet>,
    /// The range that Services get their node ports from.
    pub node_ports: RangeInclusive<u16>,
    /// Rename a state file that cannot be read and begin anew, instead of stopping.
    pub set_aside_unreadable: bool,
}

/// Why the server cannot be started.
#[derive(Debug)]
pub enum Error {
    /// The state cannot be read.
    State(JournalError),
    /// The ranges for Services make no sense.
    Ranges(String),
    /// The operating system refused something.
    Io(String, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Ranges(cause) => f.write_str(cause),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// A server that is ready to answer.
pub struct Server {
    front: Arc<Front>,
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<tokio_rustls::rustls::ServerConfig>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Reads the state, makes what is missing, and listens.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let ranges = check_ranges(&options)?;
        let io = |doing: String| move |error| Error::Io(doing, error);
        let directory = &options.state_dir;
        std::fs::create_dir_all(directory).map_err(io(format!("make {}", directory.display())))?;
        let store = open_store(&options)?;
        let service_address = allocation::address_at(options.service_cidrs[0], 1);
        let names = access::names(options.listen, Some(service_address));
        let access = Access::open(directory, &names).map_err(io(format!("prepare keys in {}", directory.display())))?;
        let listener = TcpListener::bind(options.listen).await.map_err(io(format!("listen on {}", options.listen)))?;
        let address = listener.local_addr().map_err(io("read the port".into()))?;
        let tls = access.tls().map_err(io("prepare TLS".into()))?;
        let api = Arc::new(Api { store, ranges: Arc::new(ranges) });
        setup::prepare(&api, address, service_address)
            .await
            .map_err(|failure| Error::Io("make the first objects".into(), io::Error::other(failure.message)))?;
        if let Some(path) = &options.kubeconfig {
            access::write_kubeconfig(path, &access, address).map_err(io(format!("write {}", path.display())))?;
        }
        Ok(Self { front: Arc::new(Front { api, access, address: address.to_string() }), listener, address, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that clients without a certificate need.
    pub fn token(&self) -> &str {
        &self.front.access.token
    }

    /// Serves until told to stop. What is under way is finished and durable when this returns.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let api = self.front.api.clone();
        let controllers = controller::start(&api);
        http::serve(self.listener, self.tls, self.front, stop).await;
        drop(controllers);
        _ = tokio::task::spawn_blocking(move || api.store.stop()).await;
    }
}

fn check_ranges(options: &Options) -> Result<Ranges, Error> {
    let families = |is_v4: bool| options.service_cidrs.iter().filter(|range| range.addr().is_ipv4() == is_v4).count();
    let cause = match options.service_cidrs.as_slice() {
        [] => Some("there is no range for Services; give one, such as 10.96.0.0/12"),
        _ if families(true) > 1 || families(false) > 1 => {
            Some("Services take one range of each family; give at most one of IPv4 and one of IPv6")
        }
        ranges if ranges.iter().any(|range| range.max_prefix_len() - range.prefix_len() < 3) => {
            Some("a range for Services needs at least eight addresses")
        }
        _ if options.node_ports.is_empty() || *options.node_ports.start() == 0 => Some("the range of node ports is empty"),
        _ => None,
    };
    match cause {
        Some(cause) => Err(Error::Ranges(cause.into())),
        None => Ok(Ranges { addresses: options.service_cidrs.iter().map(IpNet::trunc).collect(), node_ports: options.node_ports.clone() }),
    }
}

fn open_store(options: &Options) -> Result<Store, Error> {
    match Store::open(Some(&options.state_dir)) {
        Err(JournalError::Unreadable { path, cause }) if options.set_aside_unreadable => {
            let aside = Store::set_aside(&options.state_dir).map_err(Error::State)?;
            tracing::warn!(file = %path.display(), kept_as = %aside.display(), cause, "the state file cannot be read; beginning anew");
            Store::open(Some(&options.state_dir)).map_err(Error::State)
        }
        other => other.map_err(Error::State),
    }
}
