//! What the program is told.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rig::{figure, sandbox};

use crate::subject::Subject;
use crate::{measure, report};

/// Measures CNI plugins against Debian's bridge and host-local.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// The `transom` program to measure.
    #[arg(long)]
    pub(crate) transom: Option<PathBuf>,
    /// Where the plugins are that it is compared with.
    #[arg(long, default_value = "/usr/lib/cni")]
    pub(crate) plugins: PathBuf,
    /// How many pods are made one by one with each plugin.
    #[arg(long, default_value_t = 200)]
    pub(crate) pods: usize,
    /// How often many pods are made at a time with each plugin.
    #[arg(long, default_value_t = 6)]
    pub(crate) rounds: usize,
    /// Passed on to `transom vswitchd`, such as "--spin 0".
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, default_value = "")]
    pub(crate) vswitchd: String,
    /// A quarter of the pods and two rounds; the results are not saved then.
    #[arg(long)]
    quick: bool,
    /// Be the part that runs in namespaces of its own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Runs the part that was asked for.
pub(crate) fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        (options.pods, options.rounds) = (options.pods.div_ceil(4), options.rounds.min(2));
    }
    let outcome = match options.inside {
        true => sandbox::settle().and_then(|()| run(&options)).map(|()| ExitCode::SUCCESS),
        false => sandbox::enter(),
    };
    outcome.unwrap_or_else(|message| {
        println!("error: {message}");
        ExitCode::FAILURE
    })
}

/// Measures, prints and keeps what was found.
fn run(options: &Options) -> Result<(), String> {
    let machine = figure::machine();
    let subjects = Subject::set_up(options)?;
    let outcomes = measure::measure(&subjects, options)?;
    let text = format!("{machine}\n\n{}", report::print(&subjects, &outcomes, options));
    println!("\n{text}");
    if options.quick { Ok(()) } else { figure::save("cni", &text) }
}
