//! A plugin as a program: the real variables, the real standard streams, and nothing else set up, since a runtime
//! waits for every start.

use std::io::{self, Read, Write};

use crate::dispatch::dispatch;
use crate::plugin::{Plugin, Registry};

/// A configuration larger than this is none; a runtime's are a few kilobytes.
const CONFIG_LIMIT: u64 = 16 << 20;

/// Runs a plugin as this process, and gives the exit code.
pub fn run(plugin: &dyn Plugin, registry: &Registry) -> u8 {
    let outcome = dispatch(plugin, registry, &|name| std::env::var_os(name), read_stdin);
    // Standard error is only for people, and whoever closed standard output does not want to know.
    let _ = io::stderr().write_all(outcome.stderr.as_bytes());
    let mut stdout = io::stdout();
    match stdout.write_all(outcome.stdout.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => outcome.exit_code,
        Err(_) => 1,
    }
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(CONFIG_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CONFIG_LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a configuration has at most 16 MiB"));
    }
    Ok(bytes)
}
