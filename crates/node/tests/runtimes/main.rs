//! CNI plugins as runtimes use them when times are hard: many at once, killed in the middle, for a long time, and by containerd.
//!
//! Everything is real: the daemons, the namespaces, and a process for every call. A target of its own, because it keeps a machine
//! busy enough to disturb others. What it takes is what `modes` takes.
#![cfg(target_os = "linux")]

mod audit;
mod containerd;
mod cycles;
mod fleet;
#[path = "../modes/harness/mod.rs"]
mod harness;
mod plugin;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "made for the crash test, which chooses more")]
mod random;
mod storm;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this target runs: each is enough for a machine, and some measure it.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // One that failed is over, too.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that somebody set in the environment.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}
