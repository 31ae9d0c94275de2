//! Running a program for a limited time.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(50);
/// For programs of which many are run one after the other.
const SHORT_POLL: Duration = Duration::from_millis(5);
/// How long the last lines of a program that ended may take.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a program and shows every line of its output as it comes. Past its limit it is killed, which is an error.
pub(super) fn run(command: &mut Command, limit: Duration, mut each: impl FnMut(&str)) -> Result<ExitStatus, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    let lines = lines(&mut child);
    let outcome = follow(&mut child, &lines, Instant::now() + limit, &mut each);
    if outcome.is_err() {
        // It may have ended meanwhile, which is as good.
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome.map_err(|error| format!("{name}: {error}"))
}

/// Runs a program whose input and output are somebody else's. Past its limit it is killed, which is an error.
pub(super) fn wait(command: &mut Command, limit: Duration) -> Result<ExitStatus, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("{name}: {error}"))? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            // It may have ended meanwhile, which is as good.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{name}: took too long and was ended"));
        }
        thread::sleep(SHORT_POLL);
    }
}

/// The end of the output is no sign of the end of the program: what Wine leaves in the background keeps the pipe open.
fn follow(child: &mut Child, lines: &Receiver<String>, deadline: Instant, each: &mut impl FnMut(&str)) -> Result<ExitStatus, String> {
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
        }
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            while let Ok(line) = lines.recv_timeout(GRACE) {
                each(&line);
            }
            return Ok(status);
        }
        if Instant::now() > deadline {
            return Err("took too long and was ended".to_owned());
        }
    }
}

/// The lines of both outputs, read by threads that end with them.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
    ];
    for output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if sender.send(line.trim_end_matches('\r').to_owned()).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_and_the_status_too() {
        let mut seen = Vec::new();
        let status = run(Command::new("sh").args(["-c", "echo one; echo two; exit 3"]), GRACE * 20, |line| seen.push(line.to_owned()));
        assert_eq!(status.ok().and_then(|status| status.code()), Some(3));
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn a_limit_is_a_limit() {
        let error = run(Command::new("sleep").arg("60"), POLL, |_| {}).unwrap_err();
        assert!(error.contains("too long"), "{error}");
    }

    #[test]
    fn waiting_has_a_limit_too() {
        let status = wait(Command::new("sh").args(["-c", "exit 3"]), GRACE * 20);
        assert_eq!(status.ok().and_then(|status| status.code()), Some(3));
        assert!(wait(Command::new("sleep").arg("60"), POLL).unwrap_err().contains("too long"));
    }

    #[test]
    fn whoever_keeps_the_pipe_is_not_waited_for() {
        let begun = Instant::now();
        let status = run(Command::new("sh").args(["-c", "sleep 30 & echo started"]), GRACE * 20, |_| {});
        assert!(status.is_ok_and(|status| status.success()));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
