//! What holds for all frames, good and broken. Another library, etherparse, makes the good ones and judges ours.

mod answers;
mod capture;
mod errors;
mod fragments;
mod judge;
mod parse;
mod print;
mod sample;
mod tunnels;

use proptest::prelude::ProptestConfig;

/// A failure is kept as a test of its own, in `regressions.rs`, and not as a seed.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}
