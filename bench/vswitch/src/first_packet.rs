//! What a first packet costs by itself: a round trip that begins a flow, against one whose flow is known.
//!
//! A connection's first packet is what goes up to the engine; opening TCP connections would measure much else besides.

use crate::generator;
use crate::load::{self, Trips};
use crate::measure::{KERNEL, OURS};
use crate::options::Options;
use crate::progress::Progress;
use crate::system::{System, kernel, ours};

/// The name of the test.
pub(crate) const NAME: &str = "first packet";

/// Who is measured, where each stands in all comparisons.
pub(crate) const NAMES: [&str; 2] = ["kernel", "transom"];

/// How many rounds there are at most: their flows together must be fewer than the 65,536 that a switch remembers for one pod.
const ROUNDS: usize = 12;

/// What came of it: for both a figure a round, where there is one.
#[derive(Debug, Default)]
pub(crate) struct FirstPackets {
    pub(crate) trips: [Vec<Option<Trips>>; 2],
    /// What went wrong.
    pub(crate) failures: Vec<String>,
}

impl FirstPackets {
    /// Something about the rounds of one of the two.
    pub(crate) fn of(&self, subject: usize, what: impl Fn(&Trips) -> f64) -> Vec<f64> {
        self.trips[subject].iter().flatten().map(what).collect()
    }

    /// Something about ours against the same of the kernel, round by round.
    pub(crate) fn ratios(&self, what: impl Fn(&Trips) -> f64) -> Vec<f64> {
        let pairs = self.trips[OURS].iter().zip(&self.trips[KERNEL]);
        pairs.filter_map(|(ours, kernel)| Some(what(ours.as_ref()?) / what(kernel.as_ref()?))).collect()
    }

    /// Whether both were measured in some round.
    pub(crate) fn is_complete(&self) -> bool {
        !self.ratios(|trips| trips.first.middle).is_empty()
    }
}

/// Measures, in turns. In every round flows are new, by another port of the server.
pub(crate) fn measure(options: &Options, progress: &Progress) -> FirstPackets {
    progress.say(&format!("setting up: {NAME}"));
    let systems = [kernel::same_node("fk"), ours::same_node("f", options)].map(|system| system.and_then(System::connected));
    let mut outcome = FirstPackets::default();
    for (name, system) in NAMES.iter().zip(&systems) {
        outcome.failures.extend(system.as_ref().err().map(|error| format!("{NAME}: {name} is not measured: {error}")));
    }
    for (round, port) in (0..options.rounds().min(ROUNDS)).zip(generator::ports()) {
        for turn in 0..systems.len() {
            let subject = (round + turn) % systems.len();
            let trips = systems[subject].as_ref().ok().map(|system| load::first_packets(system, port));
            let place = format!("{NAME}, round {}, {}", round + 1, NAMES[subject]);
            match &trips {
                Some(Ok(trips)) => progress.say(&format!("{place}: {trips}")),
                Some(Err(error)) => {
                    progress.say(&format!("{place}: failed: {error}"));
                    outcome.failures.push(format!("{place}: {error}"));
                }
                None => {}
            }
            outcome.trips[subject].push(trips.and_then(Result::ok));
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::RoundTrip;

    #[test]
    fn ratios_are_of_the_same_round() {
        let trips = |first: f64, known: f64| {
            let trip = |middle: f64| RoundTrip { middle, mean: middle };
            Some(Trips { first: trip(first), known: trip(known) })
        };
        let mut packets = FirstPackets::default();
        assert!(!packets.is_complete());
        packets.trips = [vec![trips(10.0, 8.0), trips(20.0, 8.0)], vec![trips(30.0, 6.0), None]];
        assert!(packets.is_complete());
        assert_eq!(packets.ratios(|trips| trips.first.middle), [3.0]);
        assert_eq!(packets.of(KERNEL, Trips::difference), [2.0, 12.0]);
    }
}
