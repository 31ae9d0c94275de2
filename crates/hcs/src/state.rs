//! The life of a compute system, and what may be done when.
//!
//! ```text
//!  create ─► Created ── start ──► Running ── shutdown, terminate, its own end ──► Stopped ── delete ─► gone
//!               └──────────────────── terminate ────────────────────────────────────┘
//! ```
//!
//! A system that is stopped answers most things with "already stopped" rather than with "invalid state": callers that stop
//! something twice rely on it.

use std::fmt;

use crate::error::{Error, Result, detail};

/// How far a compute system has come in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made; nothing runs in it.
    Created,
    /// Started; processes can be made.
    Running,
    /// Ended, and still there to be asked about.
    Stopped,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Created, Self::Running, Self::Stopped];

    /// The state after an operation, or why it cannot be done.
    pub fn after(self, operation: Operation) -> Result<Self> {
        use Operation::{CreateProcess, Delete, Shutdown, Start, Terminate};
        match (self, operation) {
            (Self::Created, Start) => Ok(Self::Running),
            (Self::Running, CreateProcess) => Ok(Self::Running),
            (Self::Running, Shutdown) | (Self::Created | Self::Running, Terminate) => Ok(Self::Stopped),
            (Self::Created | Self::Stopped, Delete) => Ok(Self::Stopped),
            (Self::Stopped, Start | Shutdown | Terminate | CreateProcess) => {
                Err(Error::AlreadyStopped(detail(format!("it has stopped, and nobody can {operation}"))))
            }
            (Self::Created, Shutdown | CreateProcess) => {
                Err(Error::InvalidState(detail(format!("it has not been started, so nobody can {operation}")).remedy("start it first")))
            }
            (Self::Running, Start) => Err(Error::InvalidState(detail("it runs already"))),
            (Self::Running, Delete) => Err(Error::InvalidState(detail("it still runs").remedy("shut it down or terminate it first"))),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "Created",
            Self::Running => "Running",
            Self::Stopped => "Stopped",
        })
    }
}

/// What can be done to a compute system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Let processes run in it.
    Start,
    /// Ask its processes to end.
    Shutdown,
    /// End its processes.
    Terminate,
    /// Run a process in it.
    CreateProcess,
    /// Forget it.
    Delete,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 5] = [Self::Start, Self::Shutdown, Self::Terminate, Self::CreateProcess, Self::Delete];
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start it",
            Self::Shutdown => "shut it down",
            Self::Terminate => "terminate it",
            Self::CreateProcess => "run a process in it",
            Self::Delete => "delete it",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens in a state: the next one, or the name of the failure.
    fn outcome(state: State, operation: Operation) -> String {
        state.after(operation).map_or_else(|error| error.name().to_owned(), |next| next.to_string())
    }

    #[test]
    fn every_operation_in_every_state() {
        let mut table = String::new();
        for state in State::ALL {
            for operation in Operation::ALL {
                table.push_str(&format!("{state}, {operation:?}: {}\n", outcome(state, operation)));
            }
        }
        let expected = "\
Created, Start: Running
Created, Shutdown: HCS_E_INVALID_STATE
Created, Terminate: Stopped
Created, CreateProcess: HCS_E_INVALID_STATE
Created, Delete: Stopped
Running, Start: HCS_E_INVALID_STATE
Running, Shutdown: Stopped
Running, Terminate: Stopped
Running, CreateProcess: Running
Running, Delete: HCS_E_INVALID_STATE
Stopped, Start: HCS_E_SYSTEM_ALREADY_STOPPED
Stopped, Shutdown: HCS_E_SYSTEM_ALREADY_STOPPED
Stopped, Terminate: HCS_E_SYSTEM_ALREADY_STOPPED
Stopped, CreateProcess: HCS_E_SYSTEM_ALREADY_STOPPED
Stopped, Delete: Stopped
";
        assert_eq!(table, expected);
    }
}
