//! An hnsd that lives as long as a run.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::make_directory;
use crate::shell;

/// Starting.
const LIMIT: Duration = Duration::from_secs(30);
/// An adapter for networks that need one; nothing is sent through it.
const ADAPTER: &str = "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01";

/// A running hnsd, ended when dropped.
pub(super) struct Hnsd {
    child: Child,
    program: PathBuf,
    directory: PathBuf,
    port: u16,
}

impl Hnsd {
    /// Starts hnsd with an empty state below `under`, and waits until it is ready. It logs to `hnsd.log` there.
    pub(super) fn start(program: &Path, under: &Path) -> Result<Self, String> {
        let directory = under.join("hnsd");
        // The state of an earlier run would be part of this one.
        let _ = fs::remove_dir_all(&directory);
        make_directory(&directory)?;
        let log = File::create(under.join("hnsd.log")).map_err(|error| format!("cannot write hnsd.log: {error}"))?;
        let mut hnsd = Self { child: spawn(program, &directory, log)?, program: program.to_owned(), directory, port: 0 };
        hnsd.wait_until_ready().map_err(|error| format!("{error}; see {}", under.join("hnsd.log").display()))?;
        hnsd.port = hnsd.read_port()?;
        Ok(hnsd)
    }

    /// Its TCP address.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The file with its token.
    pub(super) fn token_file(&self) -> PathBuf {
        self.directory.join("token")
    }

    /// Its socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("hnsd.sock")
    }

    /// What the command of this system prints when asked through the socket.
    pub(super) fn transom(&self, arguments: &[&str]) -> Result<String, String> {
        shell::output(Command::new(&self.program).env("TRANSOM_HNSD", self.socket()).args(arguments))
    }

    /// Waits for the line that says so. What comes after it is read and thrown away, so that hnsd can go on printing.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let output = self.child.stdout.take().ok_or("hnsd has no output")?;
        let (sender, ready) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains("ready") {
                    let _ = sender.send(());
                }
            }
        });
        ready.recv_timeout(LIMIT).map_err(|_| "hnsd did not become ready".to_owned())
    }

    fn read_port(&self) -> Result<u16, String> {
        let file = self.directory.join("port");
        let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        text.trim().parse().map_err(|_| format!("{} holds no port: {text:?}", file.display()))
    }
}

fn spawn(program: &Path, directory: &Path, log: File) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.args(["hnsd", "--switch", "none", "--listen", "127.0.0.1:0", "--adapter", ADAPTER]);
    for (option, file) in [("--state-dir", "state"), ("--socket", "hnsd.sock"), ("--token-file", "token"), ("--port-file", "port")] {
        command.arg(option).arg(directory.join(file));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))
}

impl Drop for Hnsd {
    fn drop(&mut self) {
        // Its state is thrown away with it, so there is nothing to end in good order.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
