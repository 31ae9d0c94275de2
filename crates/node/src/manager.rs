//! Whoever starts and stops daemons: a service manager, a script, a person.

use std::future::Future;
use std::io;

/// Says that the daemon does its work now.
pub(crate) fn ready() {
    #[cfg(unix)]
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Says that it is about to end.
pub(crate) fn stopping() {
    #[cfg(unix)]
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
}

/// Ends when the daemon is told to stop: by SIGTERM or SIGINT, on Windows by Ctrl-C or the service manager.
#[cfg(unix)]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Ends when the daemon is told to stop.
#[cfg(windows)]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = windows::STOP.notified() => {}
        }
    })
}

#[cfg(windows)]
pub use windows::run_as_service;

/// The service manager of Windows.
#[cfg(windows)]
mod windows {
    use std::io;

    use host::windows::service::{self, Daemon};
    use tokio::sync::Notify;

    /// Said by the service manager, perhaps before anybody listens.
    pub(super) static STOP: Notify = Notify::const_new();

    /// Runs a daemon as the service that this process was started as. Returns its exit code.
    pub fn run_as_service(run: impl FnOnce() -> u32 + Send + 'static) -> io::Result<u32> {
        service::run(Daemon { run: Box::new(run), stop: || STOP.notify_one() })
    }
}
