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
    as_container_part().or_else(as_plugin).or_else(as_server).unwrap_or_else(as_command)
}

/// Runs as a part of a container: its process 1, or one that enters it. There is one for every pod, so nothing else is set up,
/// and the kernel lets nobody with a second thread do either.
#[cfg(target_os = "linux")]
fn as_container_part() -> Option<ExitCode> {
    match std::env::args_os().nth(1)?.to_str()? {
        "container-init" => Some(host::container::init_main().into()),
        "container-enter" => Some(command::container::enter(std::env::args().skip(2))),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn as_container_part() -> Option<ExitCode> {
    None
}

/// Runs as the CNI plugin that the program is called as. A runtime waits for every start, so this comes before anything
/// else is set up.
fn as_plugin() -> Option<ExitCode> {
    let registry = cni::registry();
    let plugin = registry.called_as(&std::env::args_os().next()?)?;
    Some(cni::process::run(plugin, &registry).into())
}

/// Runs as the server of a pod. There are as many as pods, and the whole command line takes more memory than the server.
fn as_server() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    command::netexec::run_early(&arguments).map(end)
}

fn as_command() -> ExitCode {
    end(command::run(cli::Cli::parse()))
}

fn end(result: Result<(), exit::Failure>) -> ExitCode {
    match result {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            if !failure.silent {
                output::note(&failure.to_string());
            }
            failure.exit.into()
        }
    }
}
