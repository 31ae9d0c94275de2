//! The HNS daemon: a service behind a Unix socket and, if asked, a loopback port.

mod http;
mod machine;
mod switch;
mod token;

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hns::journal::{Journal, JournalError};
use hns::switch::Recorder;
use hns::{Build, Service};
use host::lock::{Lock, LockError};
use host::socket::SocketError;
use tokio::net::{TcpListener, UnixListener};

pub use machine::{AdapterSpec, ParseAdapterError};

/// How hnsd is run.
#[derive(Debug)]
pub struct Options {
    /// Where the state is kept.
    pub state_dir: PathBuf,
    /// The Unix socket.
    pub socket: PathBuf,
    /// A loopback address to listen on as well; port 0 takes any.
    pub listen: Option<SocketAddr>,
    /// The token that callers of the loopback address need; made if it does not exist.
    pub token_file: PathBuf,
    /// A file to write the loopback port to.
    pub port_file: Option<PathBuf>,
    /// The build to run as.
    pub build: Build,
    /// The socket of the switch that makes documents true; none keeps documents only.
    pub switch: Option<PathBuf>,
    /// The adapters networks can be bound to; none means those of the machine.
    pub adapters: Vec<AdapterSpec>,
    /// Rename a state file that cannot be read and begin anew, instead of stopping.
    pub set_aside_unreadable: bool,
}

/// Why hnsd stopped.
#[derive(Debug)]
pub enum Error {
    /// Another one uses the same state.
    Lock(LockError),
    /// The state cannot be read.
    State(JournalError),
    /// The socket cannot be made.
    Socket(SocketError),
    /// The loopback address is not one.
    NotLoopback(SocketAddr),
    /// The operating system refused something.
    Io(String, std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(LockError::Held { path, holder }) => {
                let directory = path.parent().unwrap_or(path).display();
                write!(f, "{holder} uses the state in {directory}; stop it first, or choose another --state-dir")
            }
            Self::Lock(error) => error.fmt(f),
            Self::State(error) => error.fmt(f),
            Self::Socket(error) => error.fmt(f),
            Self::NotLoopback(address) => {
                write!(f, "{address} is not a loopback address; hnsd listens only there, such as on 127.0.0.1:7777")
            }
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs hnsd until it is told to stop by SIGTERM or SIGINT.
pub fn run(options: Options) -> Result<(), Error> {
    if let Some(address) = options.listen.filter(|address| !address.ip().is_loopback()) {
        return Err(Error::NotLoopback(address));
    }
    let make_dir = || std::fs::create_dir_all(&options.state_dir);
    make_dir().map_err(|error| Error::Io(format!("make {}", options.state_dir.display()), error))?;
    let holder = format!("hnsd (process {}, socket {})", std::process::id(), options.socket.display());
    let _lock = Lock::take(&options.state_dir.join("hnsd.lock"), &holder).map_err(Error::Lock)?;
    let service = Arc::new(open_service(&options)?);
    let listener = host::socket::listen(&options.socket).map_err(Error::Socket)?;
    // Two threads for all connections: the work behind them is one writer's, and with one thread a call waits longer for
    // its turn (measured: 600 instead of 510 µs a create, one client). Long lists have threads of their own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Io("start the runtime".into(), error))?;
    let made = host::socket::identity(&options.socket);
    let outcome = runtime.block_on(serve(&options, service, listener));
    host::socket::remove(&options.socket, made);
    outcome
}

fn open_service(options: &Options) -> Result<Service, Error> {
    let machine: Arc<dyn hns::machine::Machine> = Arc::new(machine::HostMachine::new(options.adapters.clone()));
    let start = || {
        Service::start(hns::Options {
            state_dir: Some(options.state_dir.clone()),
            build: options.build.clone(),
            machine: machine.clone(),
            switch: match &options.switch {
                Some(path) => Arc::new(switch::RemoteSwitch::new(path.clone(), machine.clone(), options.build.clone())),
                None => Arc::new(Recorder::default()),
            },
        })
    };
    match start() {
        Err(JournalError::Unreadable { path, cause }) if options.set_aside_unreadable => {
            let aside = Journal::set_aside(&options.state_dir).map_err(Error::State)?;
            tracing::warn!(file = %path.display(), kept_as = %aside.display(), cause, "the state file cannot be read; beginning anew");
            start().map_err(Error::State)
        }
        other => other.map_err(Error::State),
    }
}

async fn serve(options: &Options, service: Arc<Service>, listener: std::os::unix::net::UnixListener) -> Result<(), Error> {
    let io = |doing: &str| {
        let doing = doing.to_owned();
        move |error| Error::Io(doing, error)
    };
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let signals = crate::manager::stop_signal().map_err(io("listen to signals"))?;
    listener.set_nonblocking(true).map_err(io("prepare the socket"))?;
    let unix = UnixListener::from_std(listener).map_err(io("prepare the socket"))?;
    let unix = tokio::spawn(http::serve_unix(unix, service.clone(), stopped(stopping.clone())));
    let tcp = match options.listen {
        Some(address) => Some(serve_tcp(options, address, &service, stopping).await?),
        None => None,
    };
    announce(options, &service);
    signals.await;
    tracing::info!("stopping");
    crate::manager::stopping();
    _ = stop.send(true);
    let stopping_service = service.clone();
    _ = tokio::task::spawn_blocking(move || stopping_service.stop()).await;
    let drained = async {
        _ = unix.await;
        if let Some(tcp) = tcp {
            _ = tcp.await;
        }
    };
    // Clients that keep a connection open without asking anything do not hold up the end.
    _ = tokio::time::timeout(std::time::Duration::from_secs(3), drained).await;
    Ok(())
}

async fn serve_tcp(
    options: &Options,
    address: SocketAddr,
    service: &Arc<Service>,
    stopping: tokio::sync::watch::Receiver<bool>,
) -> Result<tokio::task::JoinHandle<()>, Error> {
    let token = token::load_or_make(&options.token_file)?;
    let listener = TcpListener::bind(address).await.map_err(|error| Error::Io(format!("listen on {address}"), error))?;
    let bound = listener.local_addr().map_err(|error| Error::Io("read the port".into(), error))?;
    if let Some(path) = &options.port_file {
        std::fs::write(path, format!("{}\n", bound.port())).map_err(|error| Error::Io(format!("write {}", path.display()), error))?;
    }
    tracing::info!(address = %bound, token_file = %options.token_file.display(), "listening");
    Ok(tokio::spawn(http::serve_tcp(listener, token, service.clone(), stopped(stopping))))
}

/// Tells whoever started us that we are ready: systemd by its socket, everybody else by a line.
fn announce(options: &Options, service: &Service) {
    let profile = service.build().profile.name;
    tracing::info!(socket = %options.socket.display(), profile, "ready");
    let mut out = std::io::stdout().lock();
    _ = writeln!(out, "ready: hnsd listens on {} as {profile}", options.socket.display()).and_then(|()| out.flush());
    crate::manager::ready();
}

pub(crate) async fn stopped(mut stopping: tokio::sync::watch::Receiver<bool>) {
    while !*stopping.borrow_and_update() {
        if stopping.changed().await.is_err() {
            return;
        }
    }
}
