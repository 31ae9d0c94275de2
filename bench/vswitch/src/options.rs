//! What the program is told, and which of its parts it then is.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::data_path::DataPath;
use crate::generator::Generator;
use crate::{generator, run, sandbox};

/// Measures the virtual switch against the kernel's own path and Open vSwitch.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// The `transom` program to measure.
    #[arg(long)]
    pub(crate) transom: Option<PathBuf>,
    /// The program that measures the engine alone.
    #[arg(long)]
    pub(crate) vfp_bench: Option<PathBuf>,
    /// How our switch moves packets; each way has targets and results of its own.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) data_path: DataPath,
    /// Three rounds of a second each, instead of five of three.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often everything is measured.
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Only tests whose names contain this text, such as "RTT" or "two nodes"; the results are not saved then.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) only: Option<String>,
    /// Leave Open vSwitch out.
    #[arg(long)]
    pub(crate) no_ovs: bool,
    /// Passed on to `transom vswitchd`, such as "--spin 50".
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, default_value = "")]
    vswitchd: String,
    /// Be the part that runs in namespaces of its own.
    #[arg(long, hide = true)]
    inside: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Clone, Debug, Subcommand)]
enum Part {
    /// Be one end of a test.
    #[command(hide = true)]
    Generate {
        #[command(subcommand)]
        generator: Generator,
    },
}

impl Options {
    /// How many rounds to measure.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 }).max(1)
    }

    /// How many seconds one measurement takes, after the warm-up.
    pub(crate) fn seconds(&self) -> u64 {
        if self.quick { 1 } else { 3 }
    }

    /// What vswitchd is started with. The data path is always said, since the environment may say another.
    pub(crate) fn vswitchd(&self) -> String {
        format!("--data-path {} {}", self.data_path.name(), self.vswitchd).trim_end().to_owned()
    }

    /// The same with a vswitchd that remembers so many connections, unless the user wants another number.
    pub(crate) fn remembering(&self, connections: u32) -> Self {
        let mut options = self.clone();
        if !self.vswitchd.contains("--connections") {
            options.vswitchd = format!("--connections {connections} {}", self.vswitchd).trim_end().to_owned();
        }
        options
    }

    /// Whether a test was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|pattern| name.to_lowercase().contains(&pattern.to_lowercase()))
    }
}

/// Runs the part that was asked for.
pub(crate) fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.part {
        Some(Part::Generate { generator }) => generator::run(generator).map(|()| ExitCode::SUCCESS),
        None if options.inside => sandbox::settle().and_then(|()| run::run(&options)).map(|()| ExitCode::SUCCESS),
        None => sandbox::enter(),
    };
    outcome.unwrap_or_else(|message| {
        println!("error: {message}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_in_any_case() {
        let options = Options::parse_from(["vswitch-bench", "--only", "rtt", "--vswitchd", "--spin 50"]);
        assert!(options.wants("same node, RTT") && !options.wants("same node, 1 stream"));
        assert_eq!(options.vswitchd(), "--data-path tap --spin 50");
        assert!(Options::parse_from(["vswitch-bench"]).wants("anything"));
    }

    #[test]
    fn the_data_path_is_always_said() {
        assert_eq!(Options::parse_from(["vswitch-bench", "--data-path", "bpf"]).vswitchd(), "--data-path bpf");
        assert_eq!(Options::parse_from(["vswitch-bench"]).vswitchd(), "--data-path tap");
        assert!(Options::try_parse_from(["vswitch-bench", "--data-path", "auto"]).is_err());
    }

    #[test]
    fn a_number_of_connections_is_given_once() {
        let vswitchd = |arguments: &[&str]| Options::parse_from([&["vswitch-bench"], arguments].concat()).remembering(9).vswitchd();
        assert_eq!(vswitchd(&[]), "--data-path tap --connections 9");
        assert_eq!(vswitchd(&["--vswitchd", "--spin 0"]), "--data-path tap --connections 9 --spin 0");
        assert_eq!(vswitchd(&["--vswitchd", "--connections 5"]), "--data-path tap --connections 5");
    }

    #[test]
    fn quick_is_shorter() {
        let options = |arguments: &[&str]| Options::parse_from([&["vswitch-bench"], arguments].concat());
        assert_eq!((options(&[]).rounds(), options(&[]).seconds()), (5, 3));
        assert_eq!((options(&["--quick"]).rounds(), options(&["--quick"]).seconds()), (3, 1));
        assert_eq!(options(&["--quick", "--rounds", "7"]).rounds(), 7);
    }
}
