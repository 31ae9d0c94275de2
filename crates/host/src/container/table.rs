//! A mount table to make containers from.

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

/// The table of the calling thread; `/proc/self` would be that of the process's first thread.
const OWN: &str = "/proc/thread-self/ns/mnt";

/// The mount table as it was at one moment.
///
/// A container begins with a copy of the table of whoever makes it. On a machine with a thousand pods that has a mount for the network
/// namespace of each, so that the thousandth container would cost a thousand times what the first did. Containers that are made from a
/// table of before the pods all cost the same. What is mounted later is seen in none of them; files and directories are.
#[derive(Debug)]
pub struct MountTable {
    file: File,
}

impl MountTable {
    /// A copy of the table as it is now.
    pub fn now() -> io::Result<Self> {
        let copied = thread::scope(|scope| {
            let thread = thread::Builder::new().name("mounts".into()).spawn_scoped(scope, copy)?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        match copied {
            Ok(file) => Ok(Self { file }),
            Err(error) => Err(io::Error::new(error.kind(), format!("could not copy the mount table: {error}"))),
        }
    }

    /// Gives it to the calling thread, which then has a working directory of its own too.
    pub(super) fn enter(&self) -> nix::Result<()> {
        unshare(CloneFlags::CLONE_FS)?;
        setns(&self.file, CloneFlags::CLONE_NEWNS)
    }
}

/// Leaves the calling thread with a copy of its own, and opens that.
fn copy() -> io::Result<File> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    File::open(OWN)
}
