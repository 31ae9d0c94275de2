//! Starting other programs, in namespaces and on CPUs.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use host::namespace::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cpu;

/// A process that is ended when the value is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts it in a namespace, on any CPU or on one.
    pub fn start(command: &mut Command, namespace: &Namespace, cpu: Option<usize>) -> Result<Self, String> {
        start(command, namespace, cpu).map(|child| Self { child })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Starts a program in a namespace, on any CPU or on one.
pub fn start(command: &mut Command, namespace: &Namespace, cpu: Option<usize>) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let started = namespace.run(|| {
        cpu::pin(cpu)?;
        command.spawn().map_err(|error| format!("cannot start {program}: {error}"))
    });
    started.map_err(|error| format!("cannot start {program}: {error}"))?
}

/// Runs a program in a namespace to its end and returns what it prints. Past its limit it is killed, which is an error.
pub fn output(command: &mut Command, namespace: &Namespace, cpu: Option<usize>, limit: Duration) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()), namespace, cpu)?;
    finish(child, limit).map_err(|error| format!("{program}: {error}"))
}

/// Waits for a program and returns what it prints.
pub fn finish(child: Child, limit: Duration) -> Result<String, String> {
    let process = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
    let (sender, ended) = channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(limit) else {
        _ = kill(process, Signal::SIGKILL);
        return Err("took too long and was ended".to_owned());
    };
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{}: {} {}", output.status, text.trim(), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs a program where we are and returns what it prints.
pub fn run(command: &mut Command) -> Result<String, String> {
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy().into_owned()).collect();
    let line = words.join(" ");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_failure() {
        assert_eq!(run(Command::new("echo").arg("one")), Ok("one\n".to_owned()));
        let error = run(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert!(error.ends_with("failed: no"), "{error}");
    }

    #[test]
    fn a_limit_is_a_limit() {
        let child = Command::new("sleep").arg("60").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(finish(child, Duration::from_millis(50)).unwrap_err().contains("too long"));
    }
}
