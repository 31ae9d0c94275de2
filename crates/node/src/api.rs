//! The embedded Kubernetes API as a daemon.

use std::fmt;
use std::io::Write;

use cluster::server::Server;
use host::lock::{Lock, LockError};

pub use cluster::server::{Error as StartError, Options};

/// Why the API server stopped.
#[derive(Debug)]
pub enum Error {
    /// Another one uses the same state.
    Lock(LockError),
    /// It could not be started.
    Start(StartError),
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
            Self::Start(error) => error.fmt(f),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs the server until it is told to stop by SIGTERM or SIGINT.
pub fn run(options: Options) -> Result<(), Error> {
    let directory = &options.state_dir;
    std::fs::create_dir_all(directory).map_err(|error| Error::Io(format!("make {}", directory.display()), error))?;
    let holder = format!("transom api (process {})", std::process::id());
    let _lock = Lock::take(&directory.join("api.lock"), &holder).map_err(Error::Lock)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Io("start the runtime".into(), error))?;
    let outcome = runtime.block_on(serve(options));
    // Clients that watch would keep their connections open for as long as they like.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

async fn serve(options: Options) -> Result<(), Error> {
    let signals = crate::manager::stop_signal().map_err(|error| Error::Io("listen to signals".into(), error))?;
    let kubeconfig = options.kubeconfig.clone();
    let server = Server::start(options).await.map_err(Error::Start)?;
    let address = server.address();
    tracing::info!(%address, "ready");
    let told = kubeconfig.map(|path| format!("; use --kubeconfig {}", path.display())).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    _ = writeln!(out, "ready: the Kubernetes API listens on https://{address}{told}").and_then(|()| out.flush());
    drop(out);
    crate::manager::ready();
    server.run(signals).await;
    crate::manager::stopping();
    Ok(())
}
