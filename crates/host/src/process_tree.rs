//! A process and those it starts, to be ended together.
//!
//! On Unix it is a process group: a process that leaves the group is no longer one of them. On Windows it is a job, and
//! a process that is started in the instant before the job has its parent is not one of them.

use std::io;
use std::process::{Child, Command};

/// A process that was started as the root of a tree.
#[derive(Debug)]
pub struct ProcessTree {
    system: system::Tree,
}

impl ProcessTree {
    /// Starts a command as the root of a tree of its own.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        system::spawn(command).map(|(child, system)| (child, Self { system }))
    }

    /// Ends all of it at once. The root must not have been waited for.
    pub fn kill(&self) -> io::Result<()> {
        self.system.kill()
    }
}

#[cfg(unix)]
mod system {
    use std::io;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    #[derive(Debug)]
    pub(super) struct Tree {
        group: Pid,
    }

    pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Tree)> {
        let child = command.process_group(0).spawn()?;
        let group = i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)?;
        Ok((child, Tree { group }))
    }

    impl Tree {
        pub(super) fn kill(&self) -> io::Result<()> {
            killpg(self.group, Signal::SIGKILL).map_err(io::Error::from)
        }
    }
}

#[cfg(windows)]
mod system {
    // A C interface cannot be called without it; every use says why it is sound.
    #![allow(unsafe_code)]

    use std::io;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::process::{Child, Command};
    use std::ptr;

    use windows_sys::Win32::System::JobObjects::{AssignProcessToJobObject, CreateJobObjectW, TerminateJobObject};

    #[derive(Debug)]
    pub(super) struct Tree {
        job: OwnedHandle,
    }

    pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Tree)> {
        let job = create_job()?;
        let mut child = command.spawn()?;
        // SAFETY: both handles are open for as long as their owners live, which is beyond this call.
        if unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) } == 0 {
            let error = io::Error::last_os_error();
            // A process that has ended already needs no job.
            if child.try_wait()?.is_none() {
                child.kill()?;
                return Err(error);
            }
        }
        Ok((child, Tree { job }))
    }

    fn create_job() -> io::Result<OwnedHandle> {
        // SAFETY: both parameters may be null: default security, and no name.
        let job = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was made just now, and nobody else has it.
        Ok(unsafe { OwnedHandle::from_raw_handle(job) })
    }

    impl Tree {
        pub(super) fn kill(&self) -> io::Result<()> {
            // SAFETY: the handle is open for as long as its owner lives.
            match unsafe { TerminateJobObject(self.job.as_raw_handle(), 1) } {
                0 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    /// A process whose child waits for ever.
    fn waiting() -> Command {
        let (shell, arguments) = match cfg!(windows) {
            true => ("cmd", ["/c", "cmd /c pause"]),
            false => ("sh", ["-c", "sleep 600 & sleep 600"]),
        };
        let mut command = Command::new(shell);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    #[test]
    fn children_end_with_their_parent() {
        let (mut child, tree) = ProcessTree::spawn(&mut waiting()).unwrap();
        let stdin = child.stdin.take();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none());
        tree.kill().unwrap();
        // The pipe is closed only when the last of them has ended.
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(!child.wait().unwrap().success());
        drop(stdin);
    }
}
