//! Waiting to be asked to end.

use std::io;

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

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

/// Has this process, and those it starts from now on, end at Ctrl-C unless they do something else about it, also if they were started ignoring it.
#[allow(unsafe_code)]
pub fn heed_interrupts() -> io::Result<()> {
    // SAFETY: no code is called when the signal comes; the kernel does what it does by default.
    unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }?;
    Ok(())
}
