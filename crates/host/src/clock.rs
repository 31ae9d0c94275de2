//! The time, as Windows counts it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Ticks between Windows' epoch (1601) and Unix' (1970).
const EPOCH_DIFFERENCE: u64 = 116_444_736_000_000_000;

/// Now, in ticks of 100 ns since 1601.
pub fn filetime_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ticks = u64::try_from(since_1970.as_nanos() / 100).unwrap_or(u64::MAX);
    ticks.saturating_add(EPOCH_DIFFERENCE)
}
