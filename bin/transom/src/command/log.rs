//! The log of a daemon.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::exit::{Exit, Failure};

/// The log goes to standard error, where a service manager picks it up.
pub(super) fn start(level: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        let remedy = "use error, warn, info, debug or trace, or directives such as hns=debug,info";
        Failure::new(Exit::Usage, format!("{level:?} is no log level: {error}")).remedy(remedy)
    })?;
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour).init();
    Ok(())
}
