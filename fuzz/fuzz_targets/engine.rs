//! Any bytes as a script: packets, policy changes and time on a small switch, which is asked before every packet.

#![no_main]

#[path = "../../crates/vfp/tests/common/frames.rs"]
mod frames;
#[path = "../../crates/vfp/tests/common/script.rs"]
mod script;

use libfuzzer_sys::fuzz_target;

/// Longer scripts find nothing more, and take longer.
const STEPS_MAX: usize = 150;

fuzz_target!(|input: &[u8]| {
    let length = input.len().min(script::PLAN + STEPS_MAX * script::STEP);
    script::run(&input[..length]);
});
