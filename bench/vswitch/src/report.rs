//! The figures as text: a table that is readable as it is and is Markdown as well.

use rig::figure::{machine, median, short};
use rig::table::table;

use crate::load::{Figure, Load};
use crate::measure::{KERNEL, NAMES, OURS, OVS, Outcome};
use crate::options::Options;
use crate::row::Row;

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    header: String,
    pub(crate) outcomes: Vec<Outcome>,
    /// What was not measured, and why.
    pub(crate) notes: Vec<String>,
    /// What the benchmark of the engine printed.
    pub(crate) engine: String,
    /// How long programming takes.
    pub(crate) programming: String,
}

impl Report {
    /// A report of what is to come.
    pub(crate) fn new(options: &Options) -> Self {
        let (notes, outcomes) = (Vec::new(), Vec::new());
        Self { header: format!("{}\n\n{}", machine(), method(options)), outcomes, notes, engine: String::new(), programming: String::new() }
    }

    /// The report as text.
    pub(crate) fn print(&self) -> String {
        let mut text = self.header.clone();
        if !self.outcomes.is_empty() {
            text += &format!("\n{}", table(&self.rows(), 2));
        }
        let failures =
            self.outcomes.iter().flat_map(|outcome| outcome.failures.iter().map(|error| format!("{}: {error}", outcome.row.name())));
        let notes: Vec<String> = self.notes.iter().cloned().chain(failures).map(|note| format!("- {}\n", one_line(&note))).collect();
        if !notes.is_empty() {
            text += &format!("\nWhat went wrong, or was left out:\n\n{}", notes.concat());
        }
        if !self.engine.is_empty() {
            text += &format!(
                "\nThe engine alone, one thread, from the bytes of a frame to its rewritten bytes (the curve of services is drawn in [docs/services.svg](../../docs/services.svg)):\n\n```text\n{}```\n",
                self.engine
            );
        }
        if !self.programming.is_empty() {
            text += &format!("\nProgramming through HNS, with both services running:\n\n```text\n{}```\n", self.programming);
        }
        text
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let headings =
            ["test", "ends", "kernel", "transom", "transom : kernel", "OVS", "transom : OVS", "floor", "stretch", "verdict", "switch CPU"];
        let mut rows = vec![headings.map(str::to_owned).to_vec()];
        rows.extend(self.outcomes.iter().map(cells));
        rows
    }
}

/// Where the curve of services is drawn.
pub(crate) const CURVE: &str = "docs/services.svg";

fn cells(outcome: &Outcome) -> Vec<String> {
    let row = &outcome.row;
    let target = |target: Option<f64>| {
        target.map_or("-".to_owned(), |target| format!("{} {target:.2}", if row.less_is_better() { "≤" } else { "≥" }))
    };
    let ratios = outcome.ratios(OURS, KERNEL);
    vec![
        row.name(),
        row.placement.name().to_owned(),
        absolute(outcome, KERNEL),
        absolute(outcome, OURS),
        spread(&ratios),
        absolute(outcome, OVS),
        spread(&outcome.ratios(OURS, OVS)),
        target(row.floor),
        target(row.stretch),
        verdict(row, &ratios),
        switch(outcome),
    ]
}

/// What a subject reached, in the middle.
fn absolute(outcome: &Outcome, subject: usize) -> String {
    let values: Vec<f64> = outcome.of(subject).map(|figure| figure.value).collect();
    let means: Vec<f64> = outcome.of(subject).filter_map(|figure| figure.mean).collect();
    match (values.is_empty(), means.is_empty()) {
        (true, _) => "-".to_owned(),
        (false, true) => figure(&outcome.row, median(&values)),
        (false, false) => format!("{} (mean {})", figure(&outcome.row, median(&values)), short(median(&means))),
    }
}

/// A figure with its unit.
pub(crate) fn figure(row: &Row, value: f64) -> String {
    match row.load {
        Load::Streams(_) => format!("{} Gbit/s", short(value)),
        Load::RoundTrips => format!("{} µs", short(value)),
        Load::Connections => format!("{} k/s", short(value / 1e3)),
        Load::Datagrams => format!("{} kpps", short(value / 1e3)),
    }
}

/// Middle, least and most of some ratios.
fn spread(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "-".to_owned();
    }
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} [{least:.2}-{most:.2}]", median(ratios))
}

/// Whether the targets are reached. What could not be measured reaches none.
fn verdict(row: &Row, ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "**not measured**".to_owned();
    }
    let ratio = median(ratios);
    let word = match (row.reaches(ratio, row.floor), row.reaches(ratio, row.stretch)) {
        (None, _) => "no target",
        (Some(false), _) => "**short**",
        (Some(true), Some(true)) => "pass, stretch",
        (Some(true), _) => "pass",
    };
    if row.remark.is_empty() { word.to_owned() } else { format!("{word} ({})", row.remark) }
}

/// Processor time of our processes in the middle, and as a part of the time that the test took.
fn switch(outcome: &Outcome) -> String {
    let of = |value: fn(Figure) -> f64| median(&outcome.of(OURS).map(value).collect::<Vec<_>>());
    match outcome.of(OURS).next() {
        Some(_) => format!("{:.2} s ({:.2} core)", of(|figure| figure.switch), of(|figure| figure.switch / figure.wall)),
        None => "-".to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How it was measured.
fn method(options: &Options) -> String {
    let (rounds, seconds) = (options.rounds(), options.seconds());
    let switch = if options.vswitchd.is_empty() { String::new() } else { format!("vswitchd runs with `{}`.\n", options.vswitchd) };
    format!(
        "{}, {} and {} are set up at the same time and measured in turn, {rounds} rounds of {seconds} s each after a warm-up. Figures are\n\
         medians; a ratio is of the same round, and is shown as its median [least-most]. For RTT less is better, for all else more.\n\
         Congestion control is cubic. Streams are iperf3's; RTT is of one byte each way on a TCP connection, middle and mean; a connection\n\
         is opened, carries a byte each way and is closed, one after the other; of UDP, what arrives is counted, 64 bytes of payload each,\n\
         at a socket with room for 8 MB.\n\
         Kernel: veth and bridge, between nodes also its VXLAN device. OVS: its userspace datapath on veths, on one node with userspace TSO,\n\
         between nodes without, since its tunnels take no offloads. Wire-like: the wire between nodes carries frames of its MTU only\n\
         (GSO, TSO and segmentation of UDP and tunnels off), and both ends join them (GRO on). The switch itself is not pinned.\n\
         Floor and stretch are those of the portable path (TAP and UDP sockets). Switch CPU is processor time of hnsd and vswitchd, of\n\
         all nodes together, in one measurement with its warm-up.\n{switch}",
        NAMES[KERNEL], NAMES[OURS], NAMES[OVS]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::ROWS;

    #[test]
    fn a_verdict_needs_a_ratio() {
        assert_eq!(verdict(&ROWS[0], &[]), "**not measured**");
        assert_eq!(verdict(&ROWS[0], &[0.1, 0.65, 0.9]), "pass");
        assert_eq!(verdict(&ROWS[0], &[0.5]), "**short**");
        assert_eq!(verdict(&ROWS[0], &[0.8]), "pass, stretch");
    }

    #[test]
    fn ratios_show_their_spread() {
        assert_eq!(spread(&[0.7, 0.5, 0.6]), "0.60 [0.50-0.70]");
        assert_eq!(spread(&[]), "-");
    }
}
