//! The log of a daemon.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use crate::exit::{Exit, Failure};

/// The log goes to standard error, where a service manager picks it up.
pub(super) fn start(level: &str) -> Result<(), Failure> {
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(io::stderr).with_ansi(colour).init();
    Ok(())
}

/// The log goes to the end of a file, for service managers that pick nothing up.
pub(super) fn start_in(file: &Path, level: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().create(true).append(true).open(file).map_err(|error| {
        let remedy = "name a file in a directory that is there and may be written to";
        Failure::new(Exit::Usage, format!("--log-file: {} cannot be opened: {error}", file.display())).remedy(remedy)
    })?;
    tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(Mutex::new(opened)).with_ansi(false).init();
    Ok(())
}

fn filter(level: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(level).map_err(|error| {
        let remedy = "use error, warn, info, debug or trace, or directives such as hns=debug,info";
        Failure::new(Exit::Usage, format!("{level:?} is no log level: {error}")).remedy(remedy)
    })
}
