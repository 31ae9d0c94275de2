//! Starting other programs from the root of the repository.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The cargo that runs us, so that its children are of the same toolchain.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// A program, to be run in the root of the repository.
pub(crate) fn program(name: impl Into<OsString>) -> Command {
    let mut command = Command::new(name.into());
    command.current_dir(root());
    command
}

/// Runs a command with our own input and output, and insists that it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{}` failed: {status}", line(command))),
    }
}

/// Runs a command and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(command, &error))?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| format!("`{}` printed no UTF-8: {error}", line(command))),
        false => Err(format!("`{}` failed: {}", line(command), output.status)),
    }
}

/// Runs a command, passes on what it prints as it comes, and shows every line to `watch`. Answers whether it succeeded.
pub(crate) fn watch(command: &mut Command, mut watch: impl FnMut(&str)) -> Result<bool, String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let pipe = child.stdout.take().ok_or("the child has no output")?;
    for text in BufReader::new(pipe).split(b'\n') {
        let text = text.map_err(|error| format!("cannot read what `{}` prints: {error}", line(command)))?;
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        watch(&text);
    }
    let status = child.wait().map_err(|error| format!("cannot wait for `{}`: {error}", line(command)))?;
    Ok(status.success())
}

/// Says something on the error output.
pub(crate) fn complain(message: &str) {
    // Nothing is left to do if even that fails.
    let _ = writeln!(io::stderr(), "{message}");
}

fn cannot_start(command: &Command, error: &io::Error) -> String {
    format!("cannot start `{}`: {error}", line(command))
}

/// A command as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let error = run(program("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.starts_with("`sh -c exit 3` failed: exit status: 3"), "{error}");
        let error = run(&mut program("no-such-program")).unwrap_err();
        assert!(error.starts_with("cannot start `no-such-program`"), "{error}");
    }

    #[test]
    fn every_line_is_seen() {
        let mut seen = Vec::new();
        let success = watch(program("printf").arg("one\\ntwo"), |line| seen.push(line.to_owned()));
        assert_eq!(success, Ok(true));
        assert_eq!(seen, ["one", "two"]);
    }
}
