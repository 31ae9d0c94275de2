//! The edge: what makes containers of what the service has decided.

#[cfg(target_os = "linux")]
pub mod linux;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::compute_system::ComputeSystem;
use crate::network::{Network, SearchList};
use crate::process::{ProcessParameters, Streams};

/// What a container is to be.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The id of the compute system.
    pub id: &'a str,
    /// Its document.
    pub document: &'a ComputeSystem,
    /// What it knows of its network.
    pub network: &'a Network,
    /// How many suffixes it has.
    pub search_list: SearchList,
}

/// What happened in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A process has ended.
    ProcessExited {
        /// Its number.
        pid: u32,
        /// Its exit code; a signal is 128 and its number.
        code: i32,
    },
    /// The container has ended, with all of its processes.
    Ended,
}

/// Who hears of it. It is called by the runtime, at any time, and does not wait.
pub type Listener = Arc<dyn Fn(Happening) + Send + Sync>;

/// Makes containers.
pub trait Runtime: Send + Sync {
    /// Makes a container in which nothing runs.
    fn create(&self, plan: &Plan<'_>, listener: Listener) -> io::Result<Arc<dyn Container>>;

    /// Tells a container's files of its network as it is now.
    fn update(&self, plan: &Plan<'_>) -> io::Result<()>;

    /// Takes away what a container has left behind, which may be nothing.
    fn clean(&self, id: &str) -> io::Result<()>;
}

/// A container that was made. It ends when this is dropped.
pub trait Container: Send + Sync {
    /// Starts a process, and gives its number.
    fn spawn(&self, parameters: &ProcessParameters, streams: Streams) -> io::Result<u32>;

    /// Sends a signal to a process.
    fn signal(&self, pid: u32, signal: i32) -> io::Result<()>;

    /// Asks all processes to end, ends those that have not after a while, and waits until it is over.
    fn stop(&self, grace: Duration) -> io::Result<()>;

    /// Ends all processes, and waits until it is over.
    fn kill(&self) -> io::Result<()>;

    /// The process that stands for the container on the machine, if there is one.
    fn init_pid(&self) -> Option<u32>;
}
