//! Backends on HNS, Microsoft's or ours.

mod host_gw;
mod vxlan;

pub use host_gw::HostGw;
pub use vxlan::Vxlan;

use std::thread;
use std::time::{Duration, Instant};

/// How often HNS is looked at while it does something by itself.
const ROUND: Duration = Duration::from_millis(100);

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks until there is an answer, or it has taken too long.
fn wait_for<T, E>(mut ask: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let start = Instant::now();
    loop {
        match ask()? {
            None if start.elapsed() < PATIENCE => thread::sleep(ROUND),
            answer => return Ok(answer),
        }
    }
}
