//! The time, as Windows and the kernel count it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Ticks between Windows' epoch (1601) and Unix' (1970).
const EPOCH_DIFFERENCE: u64 = 116_444_736_000_000_000;

/// Now, in nanoseconds of the clock that Linux began with when it was started, and that programs in it read.
#[cfg(target_os = "linux")]
pub fn since_boot() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    // The clock is always there.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Now, in ticks of 100 ns since 1601.
pub fn filetime_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ticks = u64::try_from(since_1970.as_nanos() / 100).unwrap_or(u64::MAX);
    ticks.saturating_add(EPOCH_DIFFERENCE)
}
