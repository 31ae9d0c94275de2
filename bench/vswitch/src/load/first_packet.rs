//! Round trips that begin a flow, and round trips on flows that are known.

use std::fmt;
use std::time::Duration;

use rig::figure::short;

use super::{RoundTrip, generator, start_ready};
use crate::cpu::Placement;
use crate::process;
use crate::system::System;

/// How long they may take together.
const LIMIT: Duration = Duration::from_secs(60);

/// What they took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trips {
    /// The first of a flow.
    pub(crate) first: RoundTrip,
    /// The second.
    pub(crate) known: RoundTrip,
}

impl Trips {
    /// What a first packet costs beyond a known one, in microseconds.
    pub(crate) fn difference(&self) -> f64 {
        self.first.middle - self.known.middle
    }

    /// The middle and the mean of the first, then those of the second.
    fn read(line: &str) -> Result<Self, String> {
        let wrong = || format!("{:?} is no result", line.trim());
        let (first, known) = line.trim().match_indices(' ').nth(1).map(|(at, _)| line.trim().split_at(at)).ok_or_else(wrong)?;
        Ok(Self { first: RoundTrip::read(first)?, known: RoundTrip::read(known)? })
    }
}

impl fmt::Display for Trips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs, known {} µs", short(self.first.middle), short(self.known.middle))
    }
}

/// Measures on a system, with both ends on one CPU, so that nobody is waited for who sleeps. The port of the server must be one that was not
/// used so before.
pub(crate) fn first_packets(system: &System, port: u16) -> Result<Trips, String> {
    let [client_cpu, server_cpu] = Placement::Same.cpus();
    let _server = start_ready(generator()?.arg("answer"), &system.server, server_cpu)?;
    let mut client = generator()?;
    client.args(["first-packets", "--server", &system.address.to_string(), "--port", &port.to_string()]);
    Trips::read(&process::output(&mut client, &system.client, client_cpu, LIMIT)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_are_read_from_a_line() {
        let trips = Trips::read("30.5 31 8 9.25\n").unwrap();
        assert_eq!(trips.first, RoundTrip { middle: 30.5, mean: 31.0 });
        assert_eq!(trips.known, RoundTrip { middle: 8.0, mean: 9.25 });
        assert!((trips.difference() - 22.5).abs() < 1e-9);
        assert_eq!(trips.to_string(), "30.5 µs, known 8.00 µs");
        for wrong in ["", "1 2", "1 2 3", "1 2 3 x", "1 2 3 NaN"] {
            assert!(Trips::read(wrong).is_err(), "{wrong}");
        }
    }
}
