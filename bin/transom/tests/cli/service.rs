//! An hnsd of its own for each test, and the binary that talks to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// It worked.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// It failed with this code and said this.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, says: &str) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.contains(says), "{says:?} is missing in {self:?}");
        self
    }

    /// It worked and printed JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let ran = self.ok();
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran:?}"))
    }
}

/// The binary, with nothing of the surroundings in its environment.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    for variable in ["TRANSOM_HNSD", "TRANSOM_TOKEN_FILE", "TRANSOM_STATE_DIR", "TRANSOM_LOG"] {
        command.env_remove(variable);
    }
    command
}

fn finish(mut command: Command, input: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that ends before it has read everything is no failure of the test.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the binary on its own.
pub(crate) fn transom(arguments: &[&str]) -> Ran {
    let mut command = command();
    command.args(arguments);
    finish(command, "")
}

/// An hnsd in a directory that goes with it.
pub(crate) struct Service {
    directory: TempDir,
    options: Vec<String>,
    child: Child,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = spawn_hnsd(&directory, &options);
        let mut service = Self { directory, options, child };
        service.wait_until_up();
        service
    }

    /// Stops the service the hard way and starts it again on the same state.
    pub(crate) fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn_hnsd(&self.directory, &self.options);
        self.wait_until_up();
    }

    fn wait_until_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(self.path("hnsd.sock")).is_err() {
            assert!(Instant::now() < deadline, "hnsd did not come up");
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut said = String::new();
                _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
                panic!("hnsd ended with {status}: {said}");
            }
            thread::sleep(PAUSE);
        }
    }

    /// A path in the service's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// A file with this content.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// The TCP port, if there is one.
    pub(crate) fn port(&self) -> u16 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match std::fs::read_to_string(self.path("port")).ok().and_then(|text| text.trim().parse().ok()) {
                Some(port) => return port,
                None => assert!(Instant::now() < deadline, "no port was written"),
            }
            thread::sleep(PAUSE);
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.with_input(arguments, "")
    }

    pub(crate) fn with_input(&self, arguments: &[&str], input: &str) -> Ran {
        finish(self.command(arguments), input)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command();
        command.args(arguments).env("TRANSOM_HNSD", format!("unix:{}", self.path("hnsd.sock")));
        command
    }

    /// Starts a command that does not end by itself.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        Running::new(self.command(arguments))
    }
}

fn spawn_hnsd(directory: &TempDir, options: &[String]) -> Child {
    let path = |name: &str| directory.path().join(name);
    let mut command = command();
    command.args(["hnsd", "--switch", "none"]).arg("--state-dir").arg(path("state")).arg("--socket").arg(path("hnsd.sock"));
    command.arg("--port-file").arg(path("port")).args(["--log-level", "warn"]);
    command.args(["--adapter", "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01"]).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that goes on.
pub(crate) struct Running {
    child: Child,
    lines: Option<Receiver<String>>,
    said: Arc<Mutex<String>>,
}

impl Running {
    fn new(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        // Ends, and so closes the pipe, with the first line that nobody takes.
        thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, writer) = (child.stderr.take().unwrap(), said.clone());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                writer.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { child, lines: Some(lines), said }
    }

    /// The next line, while something is done over and over that should bring one about: nobody can see when a watcher
    /// begins to watch.
    pub(crate) fn first_line(&mut self, mut provoke: impl FnMut()) -> String {
        let deadline = Instant::now() + PATIENCE;
        let lines = self.lines.as_ref().unwrap();
        while lines.try_recv().is_ok() {}
        loop {
            provoke();
            match lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => return line,
                Err(error) => assert!(Instant::now() < deadline, "{error}: {}", self.said.lock().unwrap()),
            }
        }
    }

    /// What it said on standard error.
    pub(crate) fn messages(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn wait_for_message(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.messages().contains(text) {
            assert!(Instant::now() < deadline, "{text:?} was not said, but {:?}", self.messages());
            thread::sleep(PAUSE);
        }
    }

    /// Reads no more.
    pub(crate) fn close_output(&mut self) {
        self.lines = None;
    }

    /// The exit code, while something is done over and over that should make it end.
    pub(crate) fn exit_code(&mut self, mut provoke: impl FnMut()) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.messages());
            provoke();
            thread::sleep(PAUSE);
        }
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&mut self) -> Option<i32> {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        self.exit_code(|| {})
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
