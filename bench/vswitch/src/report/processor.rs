//! What streams take of the machine: a switch that is fast because it keeps a whole CPU busy is not better.

use rig::figure::{median, short};
use rig::table::{row, table};

use super::comparison::spread;
use crate::load::Figure;
use crate::measure::{KERNEL, OTHER, OURS, Outcome};

/// The table of streams, where some were measured. All are of the same subjects.
pub(super) fn processor(outcomes: &[Outcome]) -> String {
    let Some(Outcome { names: [kernel, ours, other], .. }) = outcomes.first() else { return String::new() };
    let [to_kernel, to_other] = [kernel, other].map(|subject| format!("{ours} : {subject}"));
    let streams = outcomes.iter().filter(|outcome| [KERNEL, OURS].iter().any(|subject| !of(outcome, *subject).is_empty()));
    let mut rows = vec![row(&["test", kernel, ours, &to_kernel, other, &to_other])];
    rows.extend(streams.map(cells));
    match rows.len() {
        1 => String::new(),
        _ => format!("\n{EXPLANATION}\n{}", table(&rows, 1)),
    }
}

const EXPLANATION: &str = "\
Processor time for each gigabyte of a stream, in the same rounds: everything that all CPUs did while iperf3's client ran, warm-up
included, by what it sent. Less is better; whatever else the machine did counts for all alike.
";

fn cells(outcome: &Outcome) -> Vec<String> {
    vec![
        outcome.row.name(),
        absolute(outcome, KERNEL),
        absolute(outcome, OURS),
        spread(&outcome.ratios_of(per_gigabyte, OURS, KERNEL)),
        absolute(outcome, OTHER),
        spread(&outcome.ratios_of(per_gigabyte, OURS, OTHER)),
    ]
}

fn per_gigabyte(figure: &Figure) -> Option<f64> {
    figure.per_gigabyte
}

fn of(outcome: &Outcome, subject: usize) -> Vec<f64> {
    outcome.of(subject).filter_map(|figure| figure.per_gigabyte).collect()
}

/// What a subject took, in the middle.
fn absolute(outcome: &Outcome, subject: usize) -> String {
    match of(outcome, subject) {
        seconds if seconds.is_empty() => "-".to_owned(),
        seconds => format!("{} s/GB", short(median(&seconds))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Names;
    use crate::row::ROWS;

    const NAMES: Names = ["kernel", "transom", "OVS"];

    #[test]
    fn only_streams_move_gigabytes() {
        let mut outcome = Outcome::new(ROWS[0], NAMES);
        outcome.figures[OURS].push(Some(Figure::of(1.0)));
        assert_eq!(processor(&[outcome]), "");
    }

    #[test]
    fn time_for_a_gigabyte_is_compared_within_a_round() {
        let mut outcome = Outcome::new(ROWS[0], NAMES);
        for (subject, seconds) in [(KERNEL, [0.5, 1.0]), (OURS, [0.25, 2.0])] {
            outcome.figures[subject] = seconds.map(|seconds| Some(Figure { per_gigabyte: Some(seconds), ..Figure::of(1.0) })).to_vec();
        }
        let text = processor(&[outcome]);
        let line = text.lines().last().unwrap_or_default();
        assert!(line.contains("| 1.00 s/GB | 2.00 s/GB | 2.00 [0.50-2.00] |"), "{text}");
    }
}
