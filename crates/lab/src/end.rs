//! Ending a lab from outside.

use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::control::{Conversation, Request};
use crate::home::Home;
use crate::launch::Role;

/// How long a lab may take to end by itself, and how long the kernel after that.
const GRACE: Duration = Duration::from_secs(5);
const LAST_BREATH: Duration = Duration::from_secs(20);

/// Ends a lab, and takes away what it has left. Returns whether there was anything.
pub fn end(home: &Home) -> io::Result<bool> {
    let was_there = home.directory().exists();
    if let Ok(mut conversation) = Conversation::begin(home, &Request::Down) {
        // It answers or it ends; both will do.
        _ = conversation.hear();
        wait(home, GRACE);
    }
    if let Some(init) = home.process().filter(|_| home.is_running()) {
        match kill(init, Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !wait(home, LAST_BREATH) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "its processes do not end"));
        }
    }
    for (process, role) in [(home.process(), Role::Init), (home.gateway(), Role::Gateway)] {
        wait_for(process, role);
    }
    crate::remove::remove(home).map_err(io::Error::other)?;
    home.clear()?;
    Ok(was_there)
}

/// Waits until a lab does not run any more.
fn wait(home: &Home, patience: Duration) -> bool {
    let begin = Instant::now();
    while home.is_running() {
        if begin.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits until a process is gone: of all in the lab the first one is the last to go, and the gateway goes after it.
fn wait_for(process: Option<Pid>, role: Role) {
    let Some(process) = process else { return };
    let begin = Instant::now();
    while is_alive(process, role) && begin.elapsed() < LAST_BREATH {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process is still the one of a lab: its number may be another's by now.
fn is_alive(process: Pid, role: Role) -> bool {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&format!("\0process\0{}\0", role.label()))
}
