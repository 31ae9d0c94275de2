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
    match as_plugin() {
        Some(code) => code,
        None => as_command(),
    }
}

/// Runs as the CNI plugin that the program is called as. A runtime waits for every start, so this comes before anything
/// else is set up.
fn as_plugin() -> Option<ExitCode> {
    let registry = cni::registry();
    let plugin = registry.called_as(&std::env::args_os().next()?)?;
    Some(cni::process::run(plugin, &registry).into())
}

fn as_command() -> ExitCode {
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
