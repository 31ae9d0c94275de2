//! The engine alone: from the bytes of a frame to its rewritten bytes, for flows that are known and for new ones.
//!
//! Every figure is for one thread on one core. Each packet is copied into the frame first, as a NIC would; the time of that copy is
//! measured alone in the same run and shown, not taken off.

mod scenario;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use scenario::{Discard, Scenario};
use vfp::{Instant, Outcome};
use wire::Frame;

const WARM_UP: Duration = Duration::from_millis(200);
const RUN: Duration = Duration::from_millis(1000);

/// What one run showed.
struct Figure {
    nanoseconds: f64,
    allocations: f64,
}

fn main() {
    println!("{:<44} {:>12} {:>12} {:>18}", "what", "ns a packet", "M packets/s", "allocations/packet");
    print("copy of the frame alone", &copying());
    for flows in [1, 1_000, 50_000] {
        for scenario in Scenario::known(flows) {
            print(&scenario.name.clone(), &known(&scenario));
        }
    }
    print("new connection (walk, remember), UDP", &fresh());
}

fn print(what: &str, figure: &Figure) {
    println!("{what:<44} {:>12.1} {:>12.2} {:>18.3}", figure.nanoseconds, 1000.0 / figure.nanoseconds, figure.allocations);
}

/// How long this thread has been computing. Time in which others had the core does not count.
fn busy() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// Repeats a batch until the time is over.
fn measure(mut batch: impl FnMut() -> u64) -> Figure {
    let warm = busy();
    while busy() - warm < WARM_UP {
        batch();
    }
    let (start, mut packets) = (busy(), 0);
    let counted = allocation_counter::measure(|| {
        while busy() - start < RUN {
            packets += batch();
        }
    });
    let nanoseconds = (busy() - start).as_nanos() as f64 / packets as f64;
    Figure { nanoseconds, allocations: counted.count_total as f64 / packets as f64 }
}

fn copying() -> Figure {
    let packet = scenario::packet(1);
    let mut frame = Frame::default();
    measure(|| {
        for _ in 0..1024 {
            frame.fill(std::hint::black_box(&packet));
            std::hint::black_box(frame.bytes_mut());
        }
        1024
    })
}

fn known(scenario: &Scenario) -> Figure {
    let (mut frame, mut sink, mut at, mut now) = (Frame::default(), Discard::default(), 0usize, 1);
    for packet in &scenario.packets {
        frame.fill(packet);
        let verdict = scenario.switch.process(Instant(now), scenario.from, &mut frame, None, &mut sink);
        assert!(matches!(verdict.outcome, Outcome::Forwarded(_)), "{}: {verdict:?}", scenario.name);
    }
    measure(|| {
        for _ in 0..1024 {
            at = if at + 1 == scenario.packets.len() { 0 } else { at + 1 };
            now += 1;
            frame.fill(&scenario.packets[at]);
            std::hint::black_box(scenario.switch.process(Instant(now), scenario.from, &mut frame, None, &mut sink));
        }
        1024
    })
}

fn fresh() -> Figure {
    let scenario = Scenario::fresh();
    let (mut frame, mut sink, mut port, mut now) = (Frame::default(), Discard::default(), 0u64, 1u64);
    measure(|| {
        for _ in 0..1024 {
            port += 1;
            now += 100_000;
            frame.fill(&scenario::packet(port));
            std::hint::black_box(scenario.switch.process(Instant(now), scenario.from, &mut frame, None, &mut sink));
        }
        scenario.switch.sweep(Instant(now), 4096);
        1024
    })
}
