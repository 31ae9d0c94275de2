//! The switch daemon: a VFP switch with NICs of this machine, programmed by hnsd.
//!
//! ```text
//!   hnsd ──HTTP over a Unix socket──► chassis: documents become ports, rules, NICs
//!                                        │
//!   NICs ─► workers ─► vfp::Switch ◄─────┘
//!     ▲        │
//!     └────────┘
//! ```
//!
//! Workers move packets and know nothing of documents; the chassis knows documents and moves no packets. What they share is
//! the switch and the list of NICs.

mod adapter;
mod api;
mod attachment;
mod capture;
mod chassis;
mod closer;
mod data_path;
mod error;
mod gateway;
mod http;
mod kernel_uplink;
mod names;
mod offload;
mod pair;
mod ports;
mod resolver;
mod tunnel;
mod view;
mod vlan;
mod vtep;
mod worker;

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Clock};

use host::lock::Lock;
use tokio::net::UnixListener;
use vfp::{Switch, Timeouts};

pub use vfp::Limits;

pub use api::{ApplyRequest, ApplyResponse, HeldObject, OrderMessage};
pub use data_path::{DataPath, DataPathReport};
pub use error::Error;
pub use view::{CounterSet, FlowRow, PortRow, RuleRow};

use chassis::Chassis;
use offload::KernelOffload;

/// How vswitchd is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Unix socket it is programmed through.
    pub socket: PathBuf,
    /// Where network namespaces have their names.
    pub namespace_dir: PathBuf,
    /// Threads that move packets; none means as many as do good here.
    pub workers: Option<usize>,
    /// How long an idle worker looks for packets before it sleeps.
    pub spin: Duration,
    /// How much the switch may hold.
    pub limits: Limits,
    /// How packets of pods are moved.
    pub data_path: DataPath,
    /// The transport ports that translation takes.
    pub nat_ports: std::ops::RangeInclusive<u16>,
    /// Whether the tables of flows and connections lie in huge pages: more memory from the beginning, less time with many flows.
    pub huge_pages: bool,
}

/// Where the socket is if nobody says otherwise: beside hnsd's.
pub fn default_socket() -> PathBuf {
    hcn::client::default_socket().with_file_name("vswitchd.sock")
}

/// Where network namespaces have their names if nobody says otherwise: where `ip netns` looks.
pub fn default_namespace_dir() -> PathBuf {
    PathBuf::from("/run/netns")
}

/// Runs vswitchd until it is told to stop by SIGTERM or SIGINT.
pub fn run(options: Options) -> Result<(), Error> {
    if let Some(directory) = options.socket.parent() {
        std::fs::create_dir_all(directory).map_err(|error| Error::io(format!("make {}", directory.display()), error))?;
    }
    let holder = format!("vswitchd (process {})", std::process::id());
    let _lock = Lock::take(&options.socket.with_extension("lock"), &holder).map_err(Error::Lock)?;
    let start = Clock::now();
    let (kernel, report) = kernel(&options, start)?;
    tracing::info!("{report}");
    let switch = Switch::new(options.limits, Timeouts::default(), random_seed());
    let switch = Arc::new(match &kernel {
        Some(kernel) => switch.with_offload(kernel.clone()),
        None => switch,
    });
    if options.huge_pages {
        use_huge_pages(&switch);
    }
    let workers = worker::Workers::start(worker_count(&options), options.spin, start, switch.clone(), kernel.clone())?;
    let chassis = Arc::new(Mutex::new(Chassis::new(options.clone(), switch.clone(), workers, kernel, report.clone())));
    let resolver = resolver::start(chassis.clone())?;
    let listener = host::socket::listen(&options.socket).map_err(Error::Socket)?;
    let made = host::socket::identity(&options.socket);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Error::io("start the runtime", error))?;
    let outcome = runtime.block_on(serve(&options, chassis.clone(), listener, &report));
    host::socket::remove(&options.socket, made);
    resolver.stop();
    chassis::lock(&chassis).shut_down();
    outcome
}

/// The kernel's table of flows, if there is to be one. It says why not.
fn kernel(options: &Options, start: Clock) -> Result<(Option<Arc<KernelOffload>>, DataPathReport), Error> {
    if options.data_path == DataPath::Tap {
        return Ok((None, DataPathReport::new(DataPath::Tap, None)));
    }
    match KernelOffload::load(options.limits, start, &options.socket) {
        Ok(kernel) => Ok((Some(Arc::new(kernel)), DataPathReport::new(DataPath::Bpf, None))),
        Err(error) if options.data_path == DataPath::Auto => Ok((None, DataPathReport::new(DataPath::Tap, Some(error.to_string())))),
        Err(error) => Err(Error::Message(format!("--data-path bpf: {error}; or use --data-path tap"))),
    }
}

/// The tables are there already, and nothing is in them yet. The pages come now: making one takes the kernel milliseconds, for which no
/// packet can wait.
fn use_huge_pages(switch: &Switch) {
    match host::memory::prefer_huge_pages() {
        Ok(bytes) => {
            switch.populate();
            tracing::debug!(bytes, "huge pages");
        }
        Err(error) => tracing::info!(%error, "no huge pages on this kernel; many flows at a time cost more"),
    }
}

/// One worker for two cores, as the kernel does the other half of the work: what it sends and receives.
fn worker_count(options: &Options) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    options.workers.unwrap_or((cores / 2).clamp(1, 8))
}

/// A number that nobody can guess.
pub(crate) fn random_seed() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high ^ low
}

async fn serve(
    options: &Options,
    chassis: Arc<Mutex<Chassis>>,
    listener: std::os::unix::net::UnixListener,
    report: &DataPathReport,
) -> Result<(), Error> {
    let signals = crate::manager::stop_signal().map_err(|error| Error::io("listen to signals", error))?;
    listener.set_nonblocking(true).map_err(|error| Error::io("prepare the socket", error))?;
    let listener = UnixListener::from_std(listener).map_err(|error| Error::io("prepare the socket", error))?;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let served = tokio::spawn(http::serve(listener, chassis, crate::hnsd::stopped(stopping)));
    tracing::info!(socket = %options.socket.display(), "ready");
    let mut out = std::io::stdout().lock();
    _ = writeln!(out, "ready: vswitchd listens on {}; {report}", options.socket.display()).and_then(|()| out.flush());
    drop(out);
    crate::manager::ready();
    signals.await;
    tracing::info!("stopping");
    crate::manager::stopping();
    _ = stop.send(true);
    _ = tokio::time::timeout(Duration::from_secs(3), served).await;
    Ok(())
}
