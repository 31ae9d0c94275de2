//! Rounds of measurements, one system after the other.

use crate::links;
use crate::load::{self, Figure, Span};
use crate::progress::Progress;
use crate::row::Row;
use crate::system::System;

/// How many are compared.
pub(crate) const SUBJECTS: usize = 3;

/// What an Ethernet of an MTU of 1500 carries.
const LARGEST_FRAME: u64 = 1514;

/// Where each stands: the kernel's path, ours, and what we are compared with besides.
pub(crate) const KERNEL: usize = 0;
pub(crate) const OURS: usize = 1;
pub(crate) const OTHER: usize = 2;

/// The names of what is compared, as in headings.
pub(crate) type Names = [&'static str; SUBJECTS];

/// What is compared.
#[derive(Debug)]
pub(crate) struct Subjects {
    pub(crate) names: Names,
    /// They are set up at the same time; or why one is not.
    pub(crate) systems: [Result<System, String>; SUBJECTS],
}

impl Subjects {
    fn present(&self) -> impl Iterator<Item = &System> {
        self.systems.iter().flatten()
    }

    /// Which are not there, and why.
    pub(crate) fn missing(&self, place: &str) -> Vec<String> {
        let missing = self.names.iter().zip(&self.systems);
        missing.filter_map(|(name, system)| Some(format!("{place}: {name} is not measured: {}", system.as_ref().err()?))).collect()
    }
}

/// What came of a test: for every subject a figure a round, where there is one.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) row: Row,
    pub(crate) names: Names,
    pub(crate) figures: [Vec<Option<Figure>>; SUBJECTS],
    /// What went wrong.
    pub(crate) failures: Vec<String>,
}

impl Outcome {
    /// An outcome without figures.
    pub(crate) fn new(row: Row, names: Names) -> Self {
        Self { row, names, figures: Default::default(), failures: Vec::new() }
    }

    /// The figures of a subject.
    pub(crate) fn of(&self, subject: usize) -> impl Iterator<Item = Figure> {
        self.figures[subject].iter().copied().flatten()
    }

    /// The figures of a subject against those of another, round by round.
    pub(crate) fn ratios(&self, subject: usize, against: usize) -> Vec<f64> {
        self.ratios_of(|figure| Some(figure.value), subject, against)
    }

    /// Something about the figures of a subject against the same of another, round by round.
    pub(crate) fn ratios_of(&self, what: impl Fn(&Figure) -> Option<f64>, subject: usize, against: usize) -> Vec<f64> {
        let pairs = self.figures[subject].iter().zip(&self.figures[against]);
        pairs.filter_map(|(one, other)| Some(what(one.as_ref()?)? / what(other.as_ref()?)?)).collect()
    }
}

/// Measures a test on all subjects. Another one is the first in every round.
pub(crate) fn measure(row: Row, subjects: &Subjects, rounds: usize, span: Span, progress: &Progress) -> Outcome {
    let mut outcome = Outcome::new(row, subjects.names);
    let before = match row.wire_like {
        true => set_wire_like(subjects, true).and_then(|()| sent(subjects)),
        false => Ok(Vec::new()),
    };
    let before = match before {
        Ok(before) => before,
        Err(error) => {
            outcome.failures.push(error);
            return outcome;
        }
    };
    for round in 0..rounds {
        for turn in 0..SUBJECTS {
            let subject = (round + turn) % SUBJECTS;
            let name = subjects.names[subject];
            let figure = subjects.systems[subject].as_ref().ok().map(|system| load::measure(system, row.load, row.placement, span));
            progress.measured(&row, round + 1, name, figure.as_ref());
            if let Some(Err(error)) = &figure {
                outcome.failures.push(format!("{name}, round {}: {error}", round + 1));
            }
            outcome.figures[subject].push(figure.and_then(Result::ok));
        }
    }
    if row.wire_like {
        let after = sent(subjects).and_then(|after| set_wire_like(subjects, false).map(|()| after));
        match after {
            Ok(after) => outcome.failures.extend(before.iter().zip(&after).filter_map(|(before, after)| too_large(before, after))),
            Err(error) => outcome.failures.push(error),
        }
    }
    outcome
}

/// What the nodes of all subjects have sent on their wires: packets and bytes.
fn sent(subjects: &Subjects) -> Result<Vec<(String, [u64; 2])>, String> {
    let nodes = subjects.present().flat_map(|system| &system.nodes);
    nodes.map(|node| Ok((node.clone(), links::sent(node)?))).collect()
}

/// Objects if packets that no wire could carry were sent between two looks at the counters.
fn too_large((node, before): &(String, [u64; 2]), (_, after): &(String, [u64; 2])) -> Option<String> {
    let [packets, bytes] = [0, 1].map(|index| after[index].saturating_sub(before[index]));
    let mean = bytes / packets.max(1);
    (mean > LARGEST_FRAME)
        .then(|| format!("{node} has sent packets of {mean} bytes on a wire for {LARGEST_FRAME}; the row is worth nothing"))
}

/// Lets only frames that fit the MTU cross the wires of all subjects, or lets all cross again.
fn set_wire_like(subjects: &Subjects, wire_like: bool) -> Result<(), String> {
    let mut nodes = subjects.present().flat_map(|system| &system.nodes);
    nodes.try_for_each(|node| links::set_wire_like(node, wire_like))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::ROWS;

    #[test]
    fn no_wire_carries_large_packets() {
        let counters = |packets: u64, bytes: u64| ("node".to_owned(), [packets, bytes]);
        assert_eq!(too_large(&counters(10, 1000), &counters(20, 16_140)), None);
        assert!(too_large(&counters(10, 1000), &counters(20, 601_000)).is_some_and(|text| text.contains("60000 bytes")));
        assert_eq!(too_large(&counters(10, 1000), &counters(10, 1000)), None);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let figure = |value: f64| Some(Figure::of(value));
        let mut outcome = Outcome::new(ROWS[0], ["kernel", "transom", "OVS"]);
        outcome.figures = [vec![figure(10.0), figure(20.0), None], vec![figure(5.0), None, figure(1.0)], Vec::new()];
        assert_eq!(outcome.ratios(OURS, KERNEL), [0.5]);
        assert!(outcome.ratios(OURS, OTHER).is_empty());
        assert!(outcome.ratios_of(|figure| figure.per_gigabyte, OURS, KERNEL).is_empty());
    }
}
