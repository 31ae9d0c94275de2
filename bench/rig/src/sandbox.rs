//! Namespaces of our own, from which nothing can leak.
//!
//! The part that measures is the first process of a PID namespace: when it ends, the kernel ends everything it started. Its mounts
//! and the names of its network namespaces are in a mount namespace that nobody else sees. It dies with its parent, which dies with
//! whoever started it, so that Ctrl-C, a failure and `kill -9` all leave nothing behind.

use std::fs;
use std::process::{Command, ExitCode};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getegid, geteuid};

/// A directory that only the sandbox sees.
pub const DIRECTORY: &str = "/run/bench";

/// Where network namespaces have their names; `ip` looks there.
pub const NAMESPACES: &str = "/run/netns";

/// Makes the namespaces and runs this program again in them.
pub fn enter() -> Result<ExitCode, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot make namespaces: {error}; run it as root");
    set_pdeathsig(Signal::SIGKILL).map_err(|error| failed(&error))?;
    if !geteuid().is_root() {
        become_root().map_err(|error| failed(&error))?;
    }
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET).map_err(|error| failed(&error))?;
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let status = Command::new(program).args(std::env::args_os().skip(1)).arg("--inside").status().map_err(|error| failed(&error))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Makes a user namespace in which we may make the others.
fn become_root() -> std::io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Makes the new namespaces usable, as their first process.
pub fn settle() -> Result<(), String> {
    set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("cannot follow the parent: {error}"))?;
    let none: Option<&str> = None;
    let mounted = |what: &str, outcome: nix::Result<()>| outcome.map_err(|error| format!("cannot mount {what}: {error}"));
    mounted("/ privately", mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))?;
    mounted("/proc", mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none))?;
    mounted("/run", mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none))?;
    fs::create_dir_all(DIRECTORY).map_err(|error| format!("cannot make {DIRECTORY}: {error}"))
}
