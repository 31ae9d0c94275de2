//! Waiting to be asked to end.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// The signals that ask a process to end, kept from ending it.
#[derive(Debug)]
pub struct Termination {
    signals: SigSet,
}

impl Termination {
    /// Keeps them from ending the process. Threads that are started later keep them too, and so do processes: it is for programs
    /// that start none, or do not mind.
    pub fn hold() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        Ok(Self { signals })
    }

    /// Waits for one of them.
    pub fn wait(&self) -> io::Result<()> {
        self.signals.wait().map(drop).map_err(io::Error::from)
    }
}
