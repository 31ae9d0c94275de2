//! The real service as a process of its own, that can be killed.

mod program;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

pub(crate) use program::program;

/// Longer than any start takes, even on a machine that is busy with other tests.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Where the service lives: the directory for its state, its socket and its log.
#[derive(Debug)]
pub(crate) struct Home {
    directory: PathBuf,
}

impl Home {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("hnsd.sock")
    }

    /// How the service is started here.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.args(["hnsd", "--switch", "none", "--adapter", "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01"]);
        command.arg("--state-dir").arg(self.directory.join("state")).arg("--socket").arg(self.socket());
        command
    }

    /// Starts a service without waiting for it.
    pub(crate) fn spawn(&self, command: &mut Command) -> Server {
        let log = fs::File::options().create(true).append(true).open(self.log()).expect("the log can be opened");
        for variable in ["TRANSOM_STATE_DIR", "TRANSOM_TOKEN_FILE", "TRANSOM_LOG"] {
            command.env_remove(variable);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        Server { child: child.unwrap_or_else(|error| panic!("{} cannot be started: {error}", program().display())) }
    }

    /// Starts a service and waits until it says that it is ready. Gives the line it says it with, too.
    pub(crate) fn start(&self, command: &mut Command) -> Result<(Server, String), String> {
        let mut server = self.spawn(command);
        match server.wait_until_ready() {
            Some(line) => Ok((server, line)),
            None => Err(format!("hnsd did not become ready; it said:\n{}", self.last_words())),
        }
    }

    /// The end of the service's log.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("hnsd.log")
    }
}

/// A running service. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    /// The process.
    pub(crate) child: Child,
}

impl Server {
    /// `kill -9`: no handler runs, nothing is flushed. A service that has ended by itself is an error.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        let ended = self.child.try_wait().map_err(|error| format!("hnsd cannot be looked after: {error}"))?;
        self.end();
        ended.map_or(Ok(()), |status| Err(format!("hnsd ended by itself: {status}")))
    }

    fn end(&mut self) {
        // It may have died by itself, in which case there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait_until_ready(&mut self) -> Option<String> {
        let output = self.child.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        // Reads on after the line, so that the service never writes into a closed pipe.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.starts_with("ready") {
                    let _ = sender.send(line);
                }
            }
        });
        receiver.recv_timeout(START_LIMIT).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
