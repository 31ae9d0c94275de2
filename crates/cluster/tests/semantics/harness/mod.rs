//! How the tests talk to a server.

mod answer;
pub(crate) mod differences;
pub(crate) mod objects;
mod scope;
mod server;
mod watch;

pub(crate) use answer::{Answer, Cause};
pub(crate) use scope::Scope;
pub(crate) use server::server;
pub(crate) use watch::Watch;

use std::time::{Duration, Instant};

/// Longer than any controller takes, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
