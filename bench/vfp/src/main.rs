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

/// New connections miss every cache, so that others on the machine are felt most. They are measured in short runs, many times in turns;
/// the least is what they cost where nobody disturbs.
const ROUND: Duration = Duration::from_millis(350);
const ROUNDS: usize = 9;

/// Packets between two looks at the clock.
const BATCH: u64 = 1024;

/// What one run showed.
struct Figure {
    nanoseconds: f64,
    allocations: f64,
}

/// What was asked for.
#[derive(Default)]
struct Options {
    /// The file that the curve is drawn into.
    picture: Option<PathBuf>,
    /// Only the new connection past an access list is measured, as a change to the engine is tried.
    quick: bool,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(usage) => {
            println!("{usage}");
            return ExitCode::FAILURE;
        }
    };
    println!("{:<44} {:>12} {:>12} {:>18}", "what", "ns a packet", "M packets/s", "allocations/packet");
    if options.quick {
        listed();
        return ExitCode::SUCCESS;
    }
    print("copy of the frame alone", &copying());
    for flows in [1, 1_000, 50_000] {
        for scenario in Scenario::known(flows) {
            print(&scenario.name.clone(), &known(&scenario));
        }
    }
    let scenario = Scenario::fresh();
    let mut newcomers = Newcomers::new(&scenario, scenario::packet);
    println!("\n{:<44} {:>12} {:>12} {:>18}", "what, of 9 runs in turns", "least ns", "middle ns", "allocations/packet");
    print_rounds("new connection (walk, remember), UDP", &Rounds::of((0..ROUNDS).map(|_| newcomers.run()).collect()));
    let points = curve::measure();
    listed();
    memory();
    changes();
    match options.picture.map(|file| std::fs::write(&file, curve::draw(&points)).map_err(|error| (file, error))) {
        Some(Err((file, error))) => {
            println!("error: cannot write {}: {error}", file.display());
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn options() -> Result<Options, &'static str> {
    let mut options = Options::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--quick") => options.quick = true,
            Some("--svg") => options.picture = Some(arguments.next().ok_or(USAGE)?.into()),
            _ => return Err(USAGE),
        }
    }
    Ok(options)
}

const USAGE: &str = "usage: vfp-bench [--quick] [--svg FILE]";

/// A new connection to one of many services, past a long access list.
fn listed() {
    let scenario = Scenario::services(10_000, 1_000);
    let mut newcomers = Newcomers::new(&scenario, |number| scenario::question(number, 10_000));
    print_rounds(&scenario.name, &Rounds::of((0..ROUNDS).map(|_| newcomers.run()).collect()));
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
    let mut scenario = None;
    let empty = allocation_counter::measure(|| scenario = Some(Scenario::services(1, 0)));
    let Some(scenario) = scenario else { return };
    let (mut frame, mut sink) = (Frame::default(), Discard::default());
    let connections = allocation_counter::measure(|| {
        for number in 0..u64::from(MANY) {
            frame.fill(&scenario::question(number, 1));
            scenario.switch.process(Instant(number), scenario.from, &mut frame, None, &mut sink);
        }
    });
    assert_eq!(scenario.switch.connection_usage().0, MANY as usize, "each is a connection");
    let services = allocation_counter::measure(|| _ = Scenario::table(&scenario.switch, MANY));
    // An empty switch has room for all connections that may come, and is little else besides its flow table.
    let room = (empty.bytes_current - (scenario::FLOWS * scenario::SLOT) as i64) as f64 / scenario::CONNECTIONS as f64;
    let each = |bytes: i64| bytes as f64 / f64::from(MANY);
    println!("\n{:<44} {:>12}", "what", "bytes");
    println!("{:<44} {:>12.0}", "a connection", room + each(connections.bytes_current));
    println!("{:<44} {:>12}", "a slot of the flow table, two to a connection", scenario::SLOT);
    println!("{:<44} {:>12.0}", "a service with one backend", each(services.bytes_current));
}

fn print(what: &str, figure: &Figure) {
    println!("{what:<44} {:>12.1} {:>12.2} {:>18.3}", figure.nanoseconds, 1000.0 / figure.nanoseconds, figure.allocations);
}

fn print_rounds(what: &str, rounds: &Rounds) {
    println!("{what:<44} {:>12.1} {:>12.1} {:>18.3}", rounds.least.nanoseconds, rounds.middle, rounds.least.allocations);
}

/// How long this thread has been computing. Time in which others had the core does not count.
fn busy() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// Repeats a batch until the time is over.
fn measure(mut batch: impl FnMut() -> u64) -> Figure {
    measure_prepared(RUN, || (), |()| batch())
}

/// Repeats a batch until the time is over. What is prepared for a batch does not count.
fn measure_prepared<P>(run: Duration, mut prepare: impl FnMut() -> P, mut batch: impl FnMut(P) -> u64) -> Figure {
    let warm = busy();
    while busy() - warm < WARM_UP {
        batch(prepare());
    }
    let (mut spent, mut packets, mut allocations) = (Duration::ZERO, 0, 0);
    while spent < run {
        let prepared = prepare();
        let start = busy();
        allocations += allocation_counter::measure(|| packets += batch(prepared)).count_total;
        spent += busy() - start;
    }
    Figure { nanoseconds: spent.as_nanos() as f64 / packets as f64, allocations: allocations as f64 / packets as f64 }
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

/// Packets that are all new connections, numbered on from one run to the next.
pub(crate) struct Newcomers<'a, P> {
    scenario: &'a Scenario,
    packet: P,
    number: u64,
}

impl<'a, P: Fn(u64) -> Vec<u8>> Newcomers<'a, P> {
    fn new(scenario: &'a Scenario, packet: P) -> Self {
        Self { scenario, packet, number: 0 }
    }

    fn run(&mut self) -> Figure {
        let (mut frame, mut sink, switch) = (Frame::default(), Discard::default(), &self.scenario.switch);
        // A tenth of a millisecond passes from one packet to the next.
        let at = |number: u64| Instant(number * 100_000);
        let prepare = || {
            // Looking for old connections is the work of another thread.
            switch.sweep(at(self.number), 4096);
            self.number += BATCH;
            (self.number - BATCH..self.number).map(|number| (at(number), (self.packet)(number))).collect::<Vec<_>>()
        };
        measure_prepared(ROUND, prepare, |packets| {
            for (now, packet) in &packets {
                frame.fill(packet);
                std::hint::black_box(switch.process(*now, self.scenario.from, &mut frame, None, &mut sink));
            }
            BATCH
        })
    }
}

/// The least and the middle of so many runs.
struct Rounds {
    least: Figure,
    middle: f64,
}

impl Rounds {
    fn of(mut figures: Vec<Figure>) -> Self {
        figures.sort_by(|one, other| one.nanoseconds.total_cmp(&other.nanoseconds));
        let middle = figures[figures.len() / 2].nanoseconds;
        Self { least: figures.swap_remove(0), middle }
    }
}
