//! Streams of TCP, by iperf3.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Figure, GRACE, Test};
use crate::cpu;
use crate::generator::CONGESTION_CONTROL;
use crate::process::{self, Daemon};

/// The port of iperf3's server.
pub(crate) const STREAM_PORT: u16 = 5201;

impl Test<'_> {
    /// Gigabits per second that arrive, and what processors took for a gigabyte.
    pub(super) fn streams(&self, count: u8) -> Result<Figure, String> {
        let mut server = Command::new("iperf3");
        server.args(["-s", "-1", "-i", "0", "-p", &STREAM_PORT.to_string()]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Daemon::start(&mut server, &self.system.server, self.cpus[1])?;
        wait_until_listening(server.id())?;
        let before = cpu::busy()?;
        let report = process::output(&mut self.stream_client(count), &self.system.client, self.cpus[0], self.span.limit())?;
        let busy = cpu::busy()? - before;
        let streams = Streams::read(&report)?;
        Ok(Figure { per_gigabyte: Some(busy / streams.gigabytes), ..Figure::of(streams.gigabits) })
    }

    /// iperf3 as the end that begins. It tells of every second, so that bytes of the warm-up are known too.
    fn stream_client(&self, count: u8) -> Command {
        let (address, port) = (self.system.address.to_string(), STREAM_PORT.to_string());
        let (seconds, count) = (self.span.duration.as_secs().max(1).to_string(), count.to_string());
        let mut client = Command::new("iperf3");
        client.args(["-c", &address, "-p", &port, "-J", "-i", "1", "-O", "1", "-C", CONGESTION_CONTROL, "-P", &count, "-t", &seconds]);
        client
    }
}

/// What iperf3's client reports.
#[derive(Debug, PartialEq)]
struct Streams {
    /// Gigabits per second that arrived, after the warm-up.
    gigabits: f64,
    /// Gigabytes that were sent, with the warm-up: processor time is counted from the first byte on too.
    gigabytes: f64,
}

impl Streams {
    fn read(report: &str) -> Result<Self, String> {
        let report: Value = serde_json::from_str(report).map_err(|error| format!("iperf3's report is no JSON: {error}"))?;
        let failed = || format!("iperf3: {}", report["error"].as_str().unwrap_or("no result"));
        let bits = report["end"]["sum_received"]["bits_per_second"].as_f64().ok_or_else(failed)?;
        let intervals = report["intervals"].as_array().ok_or_else(failed)?;
        let bytes: f64 = intervals.iter().filter_map(|interval| interval["sum"]["bytes"].as_f64()).sum();
        match bytes > 0.0 {
            true => Ok(Self { gigabits: bits / 1e9, gigabytes: bytes / 1e9 }),
            false => Err("iperf3: nothing was sent".to_owned()),
        }
    }
}

/// Waits until iperf3's server listens. It prints that too, but only when its buffer is full.
fn wait_until_listening(process: u32) -> Result<(), String> {
    let begin = Instant::now();
    let listens =
        |table: &str| fs::read_to_string(format!("/proc/{process}/net/{table}")).is_ok_and(|table| is_listening(&table, STREAM_PORT));
    while !listens("tcp6") && !listens("tcp") {
        if begin.elapsed() > GRACE {
            return Err("iperf3's server does not listen".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether somebody listens on a port, by a table like `/proc/net/tcp`: 0A is the state of a socket that does.
fn is_listening(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .any(|fields| fields.get(1).is_some_and(|address| address.ends_with(&local)) && fields.get(3) == Some(&"0A"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_read_from_the_report() {
        let report = r#"{"intervals":[{"sum":{"bytes":5e8,"omitted":true}},{"sum":{"bytes":1e9,"omitted":false}}],
            "end":{"sum_received":{"bits_per_second":2.5e9}}}"#;
        assert_eq!(Streams::read(report), Ok(Streams { gigabits: 2.5, gigabytes: 1.5 }));
        assert_eq!(Streams::read(r#"{"error":"no route"}"#), Err("iperf3: no route".to_owned()));
        let nothing = r#"{"intervals":[],"end":{"sum_received":{"bits_per_second":0}}}"#;
        assert_eq!(Streams::read(nothing), Err("iperf3: nothing was sent".to_owned()));
    }

    #[test]
    fn listening_is_a_state() {
        let table =
            "  sl  local_address rem_address   st\n   0: 00000000:1451 00000000:0000 0A 0\n   1: 0B01F40A:1452 0C01F40A:0016 01 0\n";
        assert!(is_listening(table, 5201));
        assert!(!is_listening(table, 5202) && !is_listening("", 5201));
    }
}
