//! Containers: processes with a mount table, process ids, a host name and System V objects of their own, in a network
//! namespace that somebody else made.
//!
//! ```text
//!  Supervisor ── starts ──► init, process 1 of the container ── starts ──► its processes
//!      │                      │  reaps them, keeps their log, ends with all of them
//!      └──── a socket ────────┘  requests down, reports up; when either end closes, the other ends too
//! ```
//!
//! * [`supervisor`]: makes containers, and hears of what happens in them. One thread for all of them.
//! * [`init_main`]: what the program does when it is started as process 1.
//! * [`enter`]: runs a command in a container that another process supervises, with the caller's own terminal.
//!
//! A container costs one small process besides its own. It takes no control groups, no device nodes and no programs of
//! other users, so that it works as root and as anybody who is root in a user namespace.
//!
//! The file system is the machine's own, seen read-only, with what [`Spec::mounts`] lays over it. Where the kernel is too old to
//! make a whole tree read-only, or somebody has a file open for writing, the tree stays as it is. Where it does not let a
//! user mount `/proc`, because parts of the machine's are hidden, the old one stays and shows processes by other numbers.
//! [`Container::notes`](supervisor::Container::notes) has both. This isolates networks, and is no wall against hostile programs.

mod channel;
mod enter;
mod init;
mod log;
mod message;
mod mounts;
mod root;
pub mod supervisor;
mod table;
mod tree;
mod watcher;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use enter::enter;
pub use init::init_main;
pub use supervisor::{Container, Event, Program, Streams, Supervisor};
pub use table::MountTable;

/// The running program itself, as a command for a process in a container: it can be started where its path is not seen.
pub const SELF: &str = "/proc/self/exe";

/// What a container is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name, which a list of processes shows.
    pub id: String,
    /// Its host name.
    pub host_name: String,
    /// What is laid over the machine's file system, in order.
    pub mounts: Vec<Mount>,
    /// A directory that stays writable, and that `TMPDIR` names.
    pub scratch: Option<PathBuf>,
    /// Mount points that are taken away with all below them, such as the directory of the network namespaces.
    pub hidden: Vec<PathBuf>,
    /// Whether the machine's file system is left writable.
    pub writable: bool,
    /// The file that gets what processes write, in the format of the Kubernetes runtime interface.
    pub log: Option<PathBuf>,
    /// How large the log may grow, in bytes, before it is renamed to the same name with `.1`. Zero means 10 MiB.
    pub log_limit: u64,
}

/// A file or directory of the machine, or fresh memory, seen at another place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// What is seen. Nothing means an empty directory in memory.
    pub source: Option<PathBuf>,
    /// Where it is seen. A place that is missing is made in memory, and the machine's own directory is left alone.
    pub target: PathBuf,
    /// Whether it can only be read.
    pub read_only: bool,
}

/// A command to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The program and its arguments. A program without a slash is looked for in the `PATH` of its environment.
    pub arguments: Vec<String>,
    /// All of its environment. `PATH`, `HOSTNAME` and `TMPDIR` are added where they are missing.
    pub environment: BTreeMap<String, String>,
    /// Where it starts; the root directory if nothing is said.
    pub directory: Option<PathBuf>,
}

impl Process {
    /// A command with no more than its arguments.
    pub fn new<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// The exit code of a process as shells tell it: a signal is 128 and its number.
fn exit_code(status: nix::sys::wait::WaitStatus) -> Option<(u32, i32)> {
    use nix::sys::wait::WaitStatus::{Exited, Signaled};
    match status {
        Exited(pid, code) => Some((pid.as_raw().cast_unsigned(), code)),
        Signaled(pid, signal, _) => Some((pid.as_raw().cast_unsigned(), 128 + signal as i32)),
        _ => None,
    }
}
