//! The real service as a process of its own, that can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

/// Longer than any start takes, even on a machine that is busy with other tests.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Where the service lives: the program, and the directory for its state.
#[derive(Debug)]
pub(crate) struct Home {
    program: PathBuf,
    directory: PathBuf,
}

impl Home {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { program: program(), directory: directory.to_owned() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("hnsd.sock")
    }

    /// Starts the service without waiting for it.
    pub(crate) fn spawn(&self) -> Server {
        let log = fs::File::options().create(true).append(true).open(self.log()).expect("the log can be opened");
        let child = Command::new(&self.program)
            .arg("hnsd")
            .args(["--adapter", "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01"])
            .arg("--state-dir")
            .arg(self.directory.join("state"))
            .arg("--socket")
            .arg(self.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn();
        Server { child: child.unwrap_or_else(|error| panic!("{} cannot be started: {error}", self.program.display())) }
    }

    /// Starts the service and waits until it says that it is ready.
    pub(crate) fn start(&self) -> Result<Server, String> {
        let mut server = self.spawn();
        match server.wait_until_ready() {
            true => Ok(server),
            false => Err(format!("hnsd did not become ready; it said:\n{}", self.last_words())),
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
    child: Child,
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

    fn wait_until_ready(&mut self) -> bool {
        let Some(output) = self.child.stdout.take() else {
            return false;
        };
        let (sender, receiver) = mpsc::channel();
        // Reads on after the line, so that the service never writes into a closed pipe.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.starts_with("ready") {
                    let _ = sender.send(());
                }
            }
        });
        receiver.recv_timeout(START_LIMIT).is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The `transom` program of this build: named by TRANSOM_PROGRAM, or built by the cargo that runs this test.
///
/// It belongs to another package, so cargo does not tell us where it is; but it stands two directories above this test, and
/// building it for the whole workspace uses again whatever `cargo test --workspace` has built.
fn program() -> PathBuf {
    if let Some(program) = env::var_os("TRANSOM_PROGRAM") {
        return PathBuf::from(program);
    }
    let this = env::current_exe().expect("a program knows where it is");
    let profile = this.parent().and_then(Path::parent).expect("target/PROFILE/deps/crash").to_owned();
    let target = profile.parent().expect("target/PROFILE");
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--workspace", "--bin", "transom", "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be started");
    assert!(status.success(), "transom cannot be built: {status}");
    profile.join("transom")
}
