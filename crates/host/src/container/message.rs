//! What a supervisor and the init of a container say to each other, after the [`Spec`](super::Spec).

use serde::{Deserialize, Serialize};

use super::Process;

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Run a process. Three descriptors come along if its streams are given.
    Spawn(Process, Output),
    /// Send a signal to a process.
    Signal {
        /// Its number in the container.
        pid: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Ask all processes to end, and end with the last, or after this long.
    Stop {
        /// How long they have.
        grace_ms: u64,
    },
}

/// Where a process writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Output {
    /// Nowhere.
    Null,
    /// The container's log.
    Log,
    /// The descriptors that come with the request.
    Given,
}

/// From init.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The container is made; what is not quite as it should be.
    Ready(Vec<String>),
    /// The container could not be made.
    Failed(String),
    /// A process runs, with this number in the container.
    Spawned(u32),
    /// A process could not be started, or signalled.
    Refused {
        /// The system's number for the reason, if it has one.
        os_error: Option<i32>,
        /// The reason.
        message: String,
    },
    /// A signal was sent.
    Signalled,
    /// A process has ended.
    Exited {
        /// Its number in the container.
        pid: u32,
        /// Its exit code; a signal is 128 and its number.
        code: i32,
    },
}
