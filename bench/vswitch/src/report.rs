//! The figures as text: a table that is readable as it is and is Markdown as well.

use std::fs;
use std::path::PathBuf;

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
            text += &format!("\n{}", table(&self.rows()));
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

    /// Writes the report where results are kept.
    pub(crate) fn save(&self, text: &str) -> Result<(), String> {
        let path = in_project(RESULTS);
        let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(cannot)?;
        fs::write(&path, format!("# `cargo xtask bench vswitch`\n\n{text}")).map_err(cannot)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let headings =
            ["test", "ends", "kernel", "transom", "transom : kernel", "OVS", "transom : OVS", "floor", "stretch", "verdict", "switch CPU"];
        let mut rows = vec![headings.map(str::to_owned).to_vec()];
        rows.extend(self.outcomes.iter().map(cells));
        rows
    }
}

/// Where results are kept.
const RESULTS: &str = "bench/results/vswitch.md";

/// Where the curve of services is drawn.
pub(crate) const CURVE: &str = "docs/services.svg";

/// A file of the project.
pub(crate) fn in_project(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file)
}

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

/// The middle of some numbers.
fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A number with as many digits as matter.
fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The machine in a few words.
fn machine() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (model, cores) = (model.map_or("unknown processor", |(_, name)| name), crate::cpu::allowed().len());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("{cores} CPUs of {model}, Linux {}. Load average before the run: {load}; above 0.5 the ratios say little.", kernel.trim())
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

/// Rows as a table; the first has the headings, and the first two columns stand left and the others right.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| match column {
            0 | 1 => format!(" {cell:<width$} ", width = widths[column]),
            _ => format!(" {cell:>width$} ", width = widths[column]),
        };
        lines.push(format!("|{}|\n", row.iter().enumerate().map(cell).collect::<Vec<_>>().join("|")));
        if index == 0 {
            let rule = |(column, width): (usize, &usize)| format!("{}{}", "-".repeat(width + 1), if column < 2 { "-" } else { ":" });
            lines.push(format!("|{}|\n", widths.iter().enumerate().map(rule).collect::<Vec<_>>().join("|")));
        }
    }
    lines.concat()
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

    #[test]
    fn tables_line_up() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let rows = [row(&["test", "ends", "µs"]), row(&["RTT", "free", "112"])];
        assert_eq!(table(&rows), "| test | ends |  µs |\n|------|------|----:|\n| RTT  | free | 112 |\n");
    }
}
