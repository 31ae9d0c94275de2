//! What the agents of a node have in common: they may be services of Windows, and have a log.

use std::path::PathBuf;

use clap::Args;

use super::log;
use crate::exit::Failure;

/// How an agent is run.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentArgs {
    /// What to log: error, warn, info, debug, trace, or directives such as proxy=debug
    #[arg(long, value_name = "LEVEL", env = "TRANSOM_LOG", default_value = "info")]
    log_level: String,
    /// Write the log to the end of this file; a service of Windows has no other place for it
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Be a service of Windows, started by its service manager
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    windows_service: bool,
}

impl AgentArgs {
    /// Runs an agent until it is told to stop.
    pub(super) fn run(self, agent: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Result<(), Failure> {
        match &self.log_file {
            Some(file) => log::start_in(file, &self.log_level)?,
            None => log::start(&self.log_level)?,
        }
        if self.windows_service { as_service(agent) } else { agent() }
    }
}

#[cfg(windows)]
fn as_service(agent: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Result<(), Failure> {
    use crate::exit::Exit;

    let run = || match agent() {
        Ok(()) => Exit::Ok as u32,
        Err(failure) => {
            // Nobody reads what a service prints.
            tracing::error!("{failure}");
            failure.exit as u32
        }
    };
    match node::manager::run_as_service(run) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure::new(Exit::Failed, "the service has failed").remedy("read its log; --log-file says where that is")),
        Err(error) => {
            let remedy = "make a service of it with `sc.exe create`, or leave --windows-service out";
            Err(Failure::new(Exit::Usage, format!("--windows-service: this is no service: {error}")).remedy(remedy))
        }
    }
}

#[cfg(not(windows))]
fn as_service(_: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    use crate::exit::Exit;

    let remedy = "leave it out; other service managers start agents as they are";
    Err(Failure::new(Exit::Usage, "--windows-service is for Windows").remedy(remedy))
}
