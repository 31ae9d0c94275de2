//! What the program is told.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rig::{figure, sandbox};

use crate::{measure, report};

/// Measures labs of growing size.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// The `transom` program to measure.
    #[arg(long)]
    pub(crate) transom: PathBuf,
    /// How many nodes labs have; every fourth is Linux.
    #[arg(long, default_value_t = 20)]
    pub(crate) nodes: usize,
    /// How many pods labs have, one lab for each number.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "50,200,500,1000")]
    pub(crate) pods: Vec<usize>,
    /// Between how many pairs of pods flows are tried in each lab.
    #[arg(long, value_name = "PAIRS", default_value_t = 64)]
    pub(crate) sample: usize,
    /// What the drawing of pairs begins with.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Four nodes with 8, 16, 32 and 48 pods, to see whether it works; nothing is saved.
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
        (options.nodes, options.pods, options.sample) = (4, vec![8, 16, 32, 48], 8);
    }
    options.pods.sort_unstable();
    options.pods.dedup();
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
    let measured = measure::all(options)?;
    let text = format!("{machine}\n\n{}", report::text(&measured, options));
    println!("\n{text}");
    if options.quick { Ok(()) } else { figure::save("lab", &text) }
}
