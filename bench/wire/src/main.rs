//! Measures how long it takes to learn whose a frame is, beside two well-known libraries.
//!
//! `cargo run --release --package wire-bench`. All read the same frames, one after the other in turns, so that whatever
//! else the machine does falls on all alike; what is printed is the median of the turns. Every reader has to find both
//! addresses, both ports and the protocol, and before anything is measured all must have found the same.
//!
//! `wire` does more with it: it also verifies the checksum of the IPv4 header and all lengths, walks IPv6 extension headers
//! and tells fragments, so smoltcp is measured a second time with that checksum.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]

mod frames;
mod readers;

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How often every reader has its turn, and how often it reads all frames in it.
const TURNS: usize = 201;
const REPEATS: usize = 200;

fn main() {
    println!("| frame | reader | ns per frame | against wire |");
    println!("|---|---|--:|--:|");
    for (name, frames) in [("TCP over IPv4", frames::tcp4()), ("UDP over IPv6", frames::udp6())] {
        agree(&frames);
        let times = measure(&frames);
        for (reader, time) in readers::ALL.iter().zip(&times) {
            println!("| {name} | {} | {time:.1} | {:.2} |", reader.name, time / times[0]);
        }
    }
}

/// Fails unless all readers find the same.
fn agree(frames: &[Vec<u8>]) {
    for frame in frames {
        let found: Vec<_> = readers::ALL.iter().map(|reader| (reader.read)(frame)).collect();
        assert!(found[0].is_some() && found.iter().all(|other| *other == found[0]), "{}: {found:?}", wire::Printed(frame));
    }
}

/// The median nanoseconds per frame of each reader.
fn measure(frames: &[Vec<u8>]) -> Vec<f64> {
    let mut turns: Vec<Vec<Duration>> = vec![Vec::new(); readers::ALL.len()];
    for _ in 0..TURNS {
        for (reader, times) in readers::ALL.iter().zip(&mut turns) {
            times.push((reader.time)(frames, REPEATS));
        }
    }
    let per_frame = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_nanos() as f64 / (REPEATS * frames.len()) as f64
    };
    turns.iter_mut().map(per_frame).collect()
}

/// One turn. Generic, so that each reader is compiled into its own loop as it would be into a program. What was read is
/// folded into one number: everything of it is used, and moving it to memory is no part of the measurement.
fn turn(frames: &[Vec<u8>], repeats: usize, fold: impl Fn(&[u8]) -> u64) -> Duration {
    let start = Instant::now();
    let mut total = 0;
    for _ in 0..repeats {
        for frame in frames {
            total ^= fold(black_box(frame));
        }
    }
    black_box(total);
    start.elapsed()
}
