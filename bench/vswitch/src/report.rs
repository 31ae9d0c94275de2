//! The figures as text: tables that are readable as they are and are Markdown as well.

mod comparison;
mod first_packet;
mod method;
mod processor;

use rig::figure::{machine, short};

use crate::data_path::DataPath;
use crate::first_packet::FirstPackets;
use crate::load::Load;
use crate::measure::{KERNEL, OURS, Outcome};
use crate::options::Options;
use crate::row::Row;

/// Where the curve of services is drawn.
pub(crate) const CURVE: &str = "docs/services.svg";

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    header: String,
    path: DataPath,
    pub(crate) outcomes: Vec<Outcome>,
    /// The same with a node that has much to remember.
    pub(crate) loaded: Vec<Outcome>,
    /// What first packets cost.
    pub(crate) first_packets: Option<FirstPackets>,
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
        Self {
            header: format!("{}\n\n{}", machine(), method::method(options)),
            path: options.data_path,
            outcomes: Vec::new(),
            loaded: Vec::new(),
            first_packets: None,
            notes: Vec::new(),
            engine: String::new(),
            programming: String::new(),
        }
    }

    /// Whether nothing was measured, since nobody asked for it.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none() && self.first_packets.is_none() && self.engine.is_empty() && self.programming.is_empty()
    }

    /// Whether every test has a result.
    pub(crate) fn is_complete(&self) -> bool {
        let are_all = self.all().all(|outcome| !outcome.ratios(OURS, KERNEL).is_empty());
        are_all && self.first_packets.as_ref().is_none_or(FirstPackets::is_complete)
    }

    fn all(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().chain(&self.loaded)
    }

    /// The report as text.
    pub(crate) fn print(&self) -> String {
        let mut text = self.header.clone();
        if !self.outcomes.is_empty() {
            text += &format!("\n{}", comparison::comparison(&self.outcomes, self.path));
        }
        text += &processor::processor(&self.outcomes);
        if !self.loaded.is_empty() {
            text += &format!("\n{}\n{}", method::LOADED, comparison::comparison(&self.loaded, self.path));
            text += &processor::processor(&self.loaded);
        }
        if let Some(packets) = &self.first_packets {
            text += &format!("\n{}", first_packet::first_packet(packets));
        }
        text += &self.complaints();
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

    /// What went wrong, where something did.
    fn complaints(&self) -> String {
        let failures = self.all().flat_map(|outcome| outcome.failures.iter().map(|error| format!("{}: {error}", outcome.row.name())));
        let first_packets = self.first_packets.iter().flat_map(|packets| packets.failures.iter().cloned());
        let notes = self.notes.iter().cloned().chain(failures).chain(first_packets);
        let notes: Vec<String> = notes.map(|note| format!("- {}\n", one_line(&note))).collect();
        if notes.is_empty() { String::new() } else { format!("\nWhat went wrong, or was left out:\n\n{}", notes.concat()) }
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
