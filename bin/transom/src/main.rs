//! `transom`: one command for Windows container networking. Here it is only parsed and wired.

mod cli;
mod command;
mod connect;
mod describe;
mod exit;
mod input;
mod output;
mod progress;
#[cfg(test)]
mod tests;
mod world;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Exit;

fn main() -> ExitCode {
    match command::run(cli::Cli::parse()) {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            if !failure.silent {
                output::note(&failure.to_string());
            }
            failure.exit.into()
        }
    }
}
