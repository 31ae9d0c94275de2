//! Making traffic between the pods of a system, and what came of it.

mod first_packet;
mod flows;
mod stream;

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use host::namespace::Namespace;

use crate::cpu::{self, Placement};
use crate::process::{self, Daemon};
use crate::system::System;

pub(crate) use self::first_packet::{Trips, first_packets};
pub(crate) use self::flows::open as open_flows;
pub(crate) use self::stream::STREAM_PORT;

/// How much longer than planned a test may take.
const GRACE: Duration = Duration::from_secs(15);

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// So many TCP streams at once, by iperf3.
    Streams(u8),
    /// One byte there and one back, over and over on one connection.
    RoundTrips,
    /// Connect, one byte there, one back, close.
    Connections,
    /// Datagrams of 64 bytes as fast as they can be sent.
    Datagrams,
}

/// What a test showed: gigabits, microseconds, connections or packets, each per second where that makes sense.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// The mean, where the value is the middle.
    pub(crate) mean: Option<f64>,
    /// Processor time of the whole machine for each gigabyte, in seconds, where bytes are what is moved.
    pub(crate) per_gigabyte: Option<f64>,
    /// Processor time of the processes between the pods, and how long it was taken over, in seconds.
    pub(crate) switch: f64,
    pub(crate) wall: f64,
}

impl Figure {
    /// A value with nothing else known.
    pub(crate) fn of(value: f64) -> Self {
        Self { value, ..Self::default() }
    }
}

/// The middle and the mean of round trips, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundTrip {
    pub(crate) middle: f64,
    pub(crate) mean: f64,
}

impl RoundTrip {
    /// As one of our clients prints it.
    fn read(line: &str) -> Result<Self, String> {
        let (middle, mean) = line.trim().split_once(' ').ok_or_else(|| format!("{line:?} is no result"))?;
        Ok(Self { middle: number(middle)?, mean: number(mean)? })
    }
}

/// How long a test takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

impl Span {
    /// A span of so many seconds with a warm-up that fits.
    pub(crate) fn of(seconds: u64) -> Self {
        Self { warm_up: Duration::from_millis(seconds * 300), duration: Duration::from_secs(seconds) }
    }

    fn limit(&self) -> Duration {
        self.warm_up + self.duration + GRACE
    }

    fn arguments(&self) -> [String; 4] {
        let millis = |time: Duration| time.as_millis().to_string();
        ["--warm-up".to_owned(), millis(self.warm_up), "--duration".to_owned(), millis(self.duration)]
    }
}

/// Puts a load on a system.
pub(crate) fn measure(system: &System, load: Load, placement: Placement, span: Span) -> Result<Figure, String> {
    let processes = system.processes();
    let (before, begin) = (cpu::used(&processes), Instant::now());
    let test = Test { system, cpus: placement.cpus(), span };
    let figure = match load {
        Load::Streams(count) => test.streams(count)?,
        Load::RoundTrips => test.round_trips()?,
        Load::Connections => Figure::of(number(&test.against_server("connect")?)?),
        Load::Datagrams => Figure::of(test.datagrams()?),
    };
    Ok(Figure { switch: cpu::used(&processes) - before, wall: begin.elapsed().as_secs_f64(), ..figure })
}

/// Whether a connection between the pods works.
pub(crate) fn try_connection(system: &System) -> Result<(), String> {
    let span = Span { warm_up: Duration::ZERO, duration: Duration::from_millis(20) };
    measure(system, Load::RoundTrips, Placement::Free, span).map(drop)
}

/// One test under way.
struct Test<'a> {
    system: &'a System,
    /// Of the client and of the server.
    cpus: [Option<usize>; 2],
    span: Span,
}

impl Test<'_> {
    /// The middle and the mean of round trips, in microseconds.
    fn round_trips(&self) -> Result<Figure, String> {
        let trip = RoundTrip::read(&self.against_server("round-trip")?)?;
        Ok(Figure { mean: Some(trip.mean), ..Figure::of(trip.middle) })
    }

    /// Runs one of our clients against our server, and returns what it prints.
    fn against_server(&self, client: &str) -> Result<String, String> {
        let _server = start_ready(generator()?.arg("serve"), &self.system.server, self.cpus[1])?;
        let mut client = client_of(client, self.system.address, self.span)?;
        process::output(&mut client, &self.system.client, self.cpus[0], self.span.limit())
    }

    /// Datagrams per second that arrive.
    fn datagrams(&self) -> Result<f64, String> {
        let receiver = start_ready(generator()?.arg("receive").args(self.span.arguments()), &self.system.server, self.cpus[1])?;
        // The sender begins before the receiver counts, and must not end before it has.
        let longer = Span { warm_up: self.span.warm_up, duration: self.span.limit() };
        let mut sender = client_of("send", self.system.address, longer)?;
        let _sender = Daemon::start(sender.stdin(Stdio::null()).stdout(Stdio::null()), &self.system.client, self.cpus[0])?;
        number(&receiver.last_line(self.span.limit())?)
    }
}

/// This program as one end of a test.
fn generator() -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.arg("generate").stdin(Stdio::null());
    Ok(command)
}

fn client_of(part: &str, server: Ipv4Addr, span: Span) -> Result<Command, String> {
    let mut command = generator()?;
    command.arg(part).arg("--server").arg(server.to_string()).args(span.arguments());
    Ok(command)
}

/// A part of ours that has said that it is ready.
struct Ready {
    daemon: Daemon,
    output: BufReader<std::process::ChildStdout>,
}

fn start_ready(command: &mut Command, namespace: &Namespace, cpu: Option<usize>) -> Result<Ready, String> {
    let mut daemon = Daemon::start(command.stdout(Stdio::piped()), namespace, cpu)?;
    let mut output = BufReader::new(daemon.child().stdout.take().ok_or("a server has no output")?);
    let mut line = String::new();
    let read = output.read_line(&mut line).map_err(|error| error.to_string());
    match read? > 0 && line.trim() == "ready" {
        true => Ok(Ready { daemon, output }),
        false => Err(format!("a server did not start: {}", line.trim())),
    }
}

impl Ready {
    /// What it prints when it is done. It ends by itself, at the latest when nothing arrives any more.
    fn last_line(mut self, limit: Duration) -> Result<String, String> {
        let begin = Instant::now();
        while self.daemon.child().try_wait().map_err(|error| error.to_string())?.is_none() {
            if begin.elapsed() > limit {
                return Err("a server took too long".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line)
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim().parse().map_err(|_| format!("{:?} is no result", text.trim()))?;
    if number.is_finite() { Ok(number) } else { Err("nothing was measured".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_number() {
        assert_eq!(number("12.5\n"), Ok(12.5));
        assert!(number("NaN").is_err() && number("").is_err());
    }
}
