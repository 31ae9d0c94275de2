//! A lab as a picture.

use std::path::PathBuf;

use clap::Args;

use super::OfLab;
use super::look::ask_status;
use crate::exit::{Exit, Failure};
use crate::output::{Output, note};

/// Where the picture goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct GraphArgs {
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// The file to write; without it the picture goes to standard output
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Draws it.
pub(crate) fn run(output: &Output, args: &GraphArgs) -> Result<(), Failure> {
    let drawn = lab::graph::svg(&ask_status(&args.of.home())?);
    let Some(file) = &args.file else { return output.text(&drawn) };
    std::fs::write(file, drawn).map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", file.display())))?;
    note(&format!("wrote {}", file.display()));
    Ok(())
}
