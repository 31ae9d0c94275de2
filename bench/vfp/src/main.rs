//! The engine alone: from the bytes of a frame to its rewritten bytes, for flows that are known and for new ones.
//!
//! Every figure is for one thread on one core. Each packet is copied into the frame first, as a NIC would; the time of that copy is
//! measured alone in the same run and shown, not taken off.

mod curve;
mod scenario;

use std::path::PathBuf;
use std::process::ExitCode;
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

fn main() -> ExitCode {
    let picture = match picture() {
        Ok(picture) => picture,
        Err(usage) => {
            println!("{usage}");
            return ExitCode::FAILURE;
        }
    };
    println!("{:<44} {:>12} {:>12} {:>18}", "what", "ns a packet", "M packets/s", "allocations/packet");
    print("copy of the frame alone", &copying());
    for flows in [1, 1_000, 50_000] {
        for scenario in Scenario::known(flows) {
            print(&scenario.name.clone(), &known(&scenario));
        }
    }
    print("new connection (walk, remember), UDP", &fresh(&Scenario::fresh(), scenario::packet));
    let points = curve::measure();
    let scenario = Scenario::services(10_000, 1_000);
    print(&scenario.name, &fresh(&scenario, |number| scenario::question(number, 10_000)));
    memory();
    changes();
    match picture.map(|file| std::fs::write(&file, curve::draw(&points)).map_err(|error| (file, error))) {
        Some(Err((file, error))) => {
            println!("error: cannot write {}: {error}", file.display());
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The file that the curve is drawn into, if one was named.
fn picture() -> Result<Option<PathBuf>, &'static str> {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(None),
        (Some(option), Some(file), None) if option == "--svg" => Ok(Some(file.into())),
        _ => Err("usage: vfp-bench [--svg FILE]"),
    }
}

/// How long changes take.
fn changes() {
    let timed = |what: &str, change: &dyn Fn()| {
        let start = busy();
        change();
        println!("{what:<44} {:>12.1}", (busy() - start).as_secs_f64() * 1000.0);
    };
    println!("\n{:<44} {:>12}", "what", "ms");
    let scenario = Scenario::services(1, 0);
    timed("30000 services put one by one", &|| _ = Scenario::table(&scenario.switch, 30_000));
    timed("a service with 64 backends", &|| _ = std::hint::black_box(Scenario::large(64)));
    timed("a service with 2000 backends", &|| _ = std::hint::black_box(Scenario::large(2_000)));
}

/// What flows and services take.
fn memory() {
    const MANY: u32 = 30_000;
    let scenario = Scenario::services(1, 0);
    let (mut frame, mut sink) = (Frame::default(), Discard::default());
    let connections = allocation_counter::measure(|| {
        for number in 0..u64::from(MANY) {
            frame.fill(&scenario::question(number, 1));
            scenario.switch.process(Instant(number), scenario.from, &mut frame, None, &mut sink);
        }
    });
    assert_eq!(scenario.switch.connection_usage().0, MANY as usize, "each is a connection");
    let services = allocation_counter::measure(|| _ = Scenario::table(&scenario.switch, MANY));
    let each = |bytes: i64| bytes as f64 / f64::from(MANY);
    println!("\n{:<44} {:>12}", "what", "bytes");
    println!("{:<44} {:>12.0}", "a connection", each(connections.bytes_current));
    println!("{:<44} {:>12}", "a slot of the flow table, two to a connection", scenario::SLOT);
    println!("{:<44} {:>12.0}", "a service with one backend", each(services.bytes_current));
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

fn fresh(scenario: &Scenario, packet: impl Fn(u64) -> Vec<u8>) -> Figure {
    let (mut frame, mut sink, mut port, mut now) = (Frame::default(), Discard::default(), 0u64, 1u64);
    measure(|| {
        for _ in 0..1024 {
            port += 1;
            now += 100_000;
            frame.fill(&packet(port));
            std::hint::black_box(scenario.switch.process(Instant(now), scenario.from, &mut frame, None, &mut sink));
        }
        scenario.switch.sweep(Instant(now), 4096);
        1024
    })
}
