//! Being a service of Windows: its service manager starts the program, and tells it when to stop.

use std::ffi::OsString;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use windows_service::service::{ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle};
use windows_service::{define_windows_service, service_dispatcher};

/// How long the service manager may wait for the end before it thinks that we hang.
const END: Duration = Duration::from_secs(20);

/// What the service does, and how it is told to stop. It ends with an exit code.
pub struct Daemon {
    /// Does the work.
    pub run: Box<dyn FnOnce() -> u32 + Send>,
    /// Makes `run` return.
    pub stop: fn(),
}

/// What the service manager is to start: it calls a function without arguments of ours, on a thread of its own.
static DAEMON: Mutex<Option<Daemon>> = Mutex::new(None);

/// Where the service manager is told how we are.
static STATUS: OnceLock<ServiceStatusHandle> = OnceLock::new();

/// How the daemon ended.
static ENDED: OnceLock<u32> = OnceLock::new();

/// Runs a daemon as the service that this process was started as. Returns its exit code.
pub fn run(daemon: Daemon) -> io::Result<u32> {
    *DAEMON.lock().unwrap_or_else(PoisonError::into_inner) = Some(daemon);
    // A process that is one service alone needs no name for it.
    service_dispatcher::start("", entry).map_err(cause)?;
    Ok(ENDED.get().copied().unwrap_or_default())
}

define_windows_service!(entry, main);

fn main(_: Vec<OsString>) {
    let Some(Daemon { run, stop }) = DAEMON.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let handler = move |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
            tell(ServiceState::StopPending, 0);
            stop();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    let Ok(status) = service_control_handler::register("", handler) else { return };
    _ = STATUS.set(status);
    // A daemon waits for an API server or for HNS for as long as they take; the service manager would not.
    tell(ServiceState::Running, 0);
    let code = run();
    _ = ENDED.set(code);
    tell(ServiceState::Stopped, code);
}

fn tell(state: ServiceState, code: u32) {
    let accepted = match state {
        ServiceState::Running => ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN,
        _ => ServiceControlAccept::empty(),
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: accepted,
        exit_code: if code == 0 { ServiceExitCode::NO_ERROR } else { ServiceExitCode::ServiceSpecific(code) },
        checkpoint: 0,
        wait_hint: if state == ServiceState::StopPending { END } else { Duration::ZERO },
        process_id: None,
    };
    if let Some(handle) = STATUS.get() {
        // Nobody else could be told that the service manager does not listen.
        _ = handle.set_service_status(status);
    }
}

fn cause(error: windows_service::Error) -> io::Error {
    match error {
        windows_service::Error::Winapi(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
