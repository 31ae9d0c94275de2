//! hnsd and vswitchd on a node.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hcn::client::{Address, Client};
use hcn::{Guid, Hcn, Kind};
use host::namespace::Namespace;
use serde_json::Value;

use crate::process::Daemon;

/// Both services of a node. Dropping them ends them.
#[derive(Debug)]
pub struct Services {
    /// Where their sockets, logs and state are.
    pub directory: PathBuf,
    /// A client of hnsd.
    pub client: Client,
    /// The processes.
    pub daemons: Vec<Daemon>,
}

impl Services {
    /// Starts them in a namespace and waits until they are ready. `options` are words for vswitchd.
    pub fn start(transom: &Path, directory: &Path, namespace: &Namespace, options: &str) -> Result<Self, String> {
        fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let path = |file: &str| directory.join(file);
        let mut switch = Command::new(transom);
        switch.args(["vswitchd", "--log-level", "warn", "--socket"]).arg(path("vswitchd.sock"));
        switch.arg("--namespace-dir").arg(path("ns")).args(options.split_whitespace());
        let mut hnsd = Command::new(transom);
        hnsd.args(["hnsd", "--log-level", "warn", "--socket"]).arg(path("hnsd.sock"));
        hnsd.arg("--state-dir").arg(path("state")).arg("--switch").arg(path("vswitchd.sock"));
        let daemons = vec![start(&mut switch, namespace, &path("vswitchd.log"))?, start(&mut hnsd, namespace, &path("hnsd.log"))?];
        let client = Client::new(Address::Unix(path("hnsd.sock")));
        Ok(Self { directory: directory.to_owned(), client, daemons })
    }

    /// Makes an object.
    pub fn create(&self, kind: Kind, network: Option<Guid>, document: &Value) -> Result<Guid, String> {
        let created = self.client.create(kind, network, None, &document.to_string());
        created.map_err(|error| self.explained(&format!("cannot create the {}: {error}", kind.name())))
    }

    /// An error with what vswitchd said last.
    pub fn explained(&self, error: &str) -> String {
        with_log(error, &self.directory.join("vswitchd.log"))
    }
}

/// Starts one of our services and waits until it is ready.
fn start(command: &mut Command, namespace: &Namespace, log: &Path) -> Result<Daemon, String> {
    let file = File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let mut daemon = Daemon::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file), namespace, None)?;
    let output = daemon.child().stdout.as_mut().ok_or("the service has no output")?;
    match BufReader::new(output).lines().map_while(Result::ok).any(|line| line.starts_with("ready")) {
        true => Ok(daemon),
        false => Err(with_log("a service ended before it was ready", log)),
    }
}

/// Adds the last lines of a log to an error.
pub fn with_log(error: &str, log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    if last.is_empty() { error.to_owned() } else { format!("{error}; it said: {last}") }
}
