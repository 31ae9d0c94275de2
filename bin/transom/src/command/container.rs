//! Entering a container from a terminal.

use std::io;
use std::process::ExitCode;

use host::container::{Process, enter as enter_container};

use crate::exit::Exit;
use crate::output::note;

/// Runs `PID COMMAND ARGUMENT...`: a command in the container whose init has this process id. Its exit code is ours.
pub(crate) fn enter(arguments: impl Iterator<Item = String>) -> ExitCode {
    match try_to_enter(arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            note(&error.to_string());
            Exit::Failed.into()
        }
    }
}

fn try_to_enter(mut arguments: impl Iterator<Item = String>) -> io::Result<i32> {
    let pid = arguments.next().and_then(|text| text.parse().ok());
    let pid = pid.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "give the process id of a container's init, and a command"))?;
    enter_container(pid, &Process::new(arguments))
}
