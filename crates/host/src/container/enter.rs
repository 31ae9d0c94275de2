//! Running a command in a container from another process, with the caller's own terminal.

// A signal's handler has no safe wrapper; the use says why it is sound.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Gid, Uid, setgid, setuid};

use super::Process;
use super::watcher::open_process;

/// Runs a command in the container whose init has this process id, waits for it, and gives its exit code.
///
/// It reads from and writes to where the caller does, and keys that interrupt are for it alone. If the container belongs to
/// another user namespace, that is entered first, which the kernel allows to its owner and to root. The caller changes its
/// namespaces for good, and must have one thread: this is for a program that does nothing else.
pub fn enter(init_pid: u32, process: &Process) -> io::Result<i32> {
    let Some((program, arguments)) = process.arguments.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a process has a command"));
    };
    join(init_pid)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(&process.environment).current_dir(process.directory.as_deref().unwrap_or(Path::new("/")));
    leave_signals_to_the_command()?;
    let status = command.status().map_err(|error| io::Error::new(error.kind(), format!("could not start {program}: {error}")))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}

fn join(init_pid: u32) -> io::Result<()> {
    let explained = |error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "; it has ended",
            io::ErrorKind::PermissionDenied => "; it takes its owner, or root",
            _ => "",
        };
        io::Error::new(error.kind(), format!("could not enter the container of process {init_pid}: {error}{remedy}"))
    };
    let init = open_process(init_pid).map_err(explained)?;
    if in_another_user_namespace(init_pid).map_err(explained)? {
        setns(&init, CloneFlags::CLONE_NEWUSER).map_err(|errno| explained(errno.into()))?;
        // Whoever came from outside is nobody yet. A namespace without a root of its own leaves it at that.
        let _ = setgid(Gid::from_raw(0)).and_then(|()| setuid(Uid::from_raw(0)));
    }
    let kinds =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    setns(&init, kinds).map_err(|errno| explained(errno.into()))
}

fn in_another_user_namespace(pid: u32) -> io::Result<bool> {
    let (own, other) = (fs::metadata("/proc/self/ns/user")?, fs::metadata(format!("/proc/{pid}/ns/user"))?);
    Ok((own.dev(), own.ino()) != (other.dev(), other.ino()))
}

extern "C" fn nothing(_: i32) {}

/// A terminal sends its signals to both. The command decides, so we must outlive it; it gets its defaults back when it starts.
fn leave_signals_to_the_command() -> io::Result<()> {
    for key in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: the handler does nothing, which may be done at any time.
        unsafe { signal(key, SigHandler::Handler(nothing)) }?;
    }
    Ok(())
}
