//! A plugin that is somebody else's program, from its start to its end or to its time limit.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use host::process_tree::ProcessTree;

use crate::environment::Environment;
use crate::error::{Error, Result};

/// A program that says more than this is not answering.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// How often and how far apart a program is tried that somebody is writing at the moment.
const BUSY_ATTEMPTS: u32 = 6;
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait for the last words of what was killed.
const GRACE: Duration = Duration::from_secs(1);

/// What a program said, and how it ended.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs the program. What it says on standard error goes to ours.
pub(super) fn run(plugin: &str, path: &Path, environment: &Environment, stdin: &[u8], time_limit: Duration) -> Result<Answer> {
    let deadline = Instant::now() + time_limit;
    let (child, tree) = spawn(path, environment, deadline).map_err(|error| {
        Error::io_failure(format!("plugin {plugin} cannot be started: {}: {error}", path.display()))
            .details("check that it is a program for this machine")
    })?;
    let (sender, receiver) = mpsc::channel();
    let stdin = stdin.to_vec();
    thread::spawn(move || {
        // Nobody listens any more once the time is up.
        let _ = sender.send(converse(child, stdin));
    });
    let Ok(answer) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
        let killed = tree.kill();
        let _ = receiver.recv_timeout(GRACE);
        return Err(overdue(plugin, path, time_limit, killed));
    };
    let answer = answer.map_err(|error| Error::io_failure(format!("plugin {plugin} cannot be talked to: {}: {error}", path.display())))?;
    // For people only: that nobody reads it is no failure.
    let _ = io::stderr().write_all(answer.stderr.as_bytes());
    Ok(answer)
}

fn overdue(plugin: &str, path: &Path, time_limit: Duration, killed: io::Result<()>) -> Error {
    let what = match killed {
        Ok(()) => "it was killed with its children".to_owned(),
        Err(error) => format!("killing it failed: {error}"),
    };
    Error::try_again_later(format!("plugin {plugin} did not end within {} s; {what}", time_limit.as_secs_f32()))
        .details(format!("find out what {} waits for", path.display()))
}

fn spawn(path: &Path, environment: &Environment, deadline: Instant) -> io::Result<(Child, ProcessTree)> {
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in environment.variables() {
        match value.is_empty() {
            true => command.env_remove(name),
            false => command.env(name, value),
        };
    }
    for _ in 1..BUSY_ATTEMPTS {
        match ProcessTree::spawn(&mut command) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() + BUSY_PAUSE < deadline => {
                thread::sleep(BUSY_PAUSE)
            }
            other => return other,
        }
    }
    ProcessTree::spawn(&mut command)
}

/// Writes and reads all three streams at once, since a program may fill any of them while we wait for another.
fn converse(mut child: Child, stdin: Vec<u8>) -> io::Result<Answer> {
    let writer = child.stdin.take().map(|mut pipe| {
        // A program that reads nothing closes the pipe, which is its right.
        thread::spawn(move || drop(pipe.write_all(&stdin)))
    });
    let stderr = child.stderr.take().map(|pipe| thread::spawn(move || read(pipe)));
    let stdout = child.stdout.take().map_or(Ok(String::new()), read)?;
    let stderr = stderr.and_then(|reader| reader.join().ok()).transpose()?.unwrap_or_default();
    let status = child.wait()?;
    drop(writer.map(thread::JoinHandle::join));
    Ok(Answer { status, stdout, stderr })
}

fn read(pipe: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
