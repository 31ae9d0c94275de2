//! Plugins as processes: variables, a configuration, and whatever comes back.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::Node;
use crate::program::program;

/// Where the program is under the names of plugins.
const DIRECTORY: &str = "/run/plugins";

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It succeeded and printed this.
    Success(Value),
    /// It failed with this error.
    Failure(Value),
    /// It was killed before its end.
    Killed,
}

/// A configuration, for the plugin that it names.
pub(crate) struct Plugin {
    program: PathBuf,
    pub(crate) config: Value,
}

impl Plugin {
    /// Links the program to the name of the plugin.
    pub(crate) fn new(config: Value) -> Self {
        let program = Path::new(DIRECTORY).join(config["type"].as_str().expect("a plugin"));
        fs::create_dir_all(DIRECTORY).expect("a directory for plugins");
        if !program.exists() {
            std::os::unix::fs::symlink(crate::program::program(), &program).expect("a link");
        }
        Self { program, config }
    }

    /// The network.
    pub(crate) fn network(&self) -> &str {
        self.config["name"].as_str().expect("a name")
    }

    /// Whether somebody else than HNS gives out the addresses.
    pub(crate) fn has_ipam(&self) -> bool {
        self.config["ipam"]["type"].is_string()
    }

    /// Starts the plugin for a container whose namespace is called as it is.
    pub(crate) fn start(&self, node: &Node, command: &str, id: &str) -> Running {
        self.start_with(node, command, id, &self.config)
    }

    /// The same with another configuration, as the runtime adds to it for some commands.
    pub(crate) fn start_with(&self, node: &Node, command: &str, id: &str, config: &Value) -> Running {
        let mut plugin = Command::new(&self.program);
        plugin.env("CNI_COMMAND", command).env("CNI_CONTAINERID", id).env("CNI_NETNS", format!("/run/netns/{id}"));
        plugin.env("CNI_IFNAME", "eth0").env("CNI_PATH", "/nowhere").env("TRANSOM_HNSD", node.file("hnsd.sock"));
        plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = node.run(|| plugin.spawn()).unwrap_or_else(|error| panic!("{} does not start: {error}", program().display()));
        // A plugin that dies early does not read.
        _ = child.stdin.take().map(|mut stdin| stdin.write_all(config.to_string().as_bytes()));
        Running(child)
    }
}

/// A plugin at work.
pub(crate) struct Running(Child);

impl Running {
    /// Waits for its end.
    pub(crate) fn finish(self) -> Outcome {
        let output = self.0.wait_with_output().expect("the plugin is ours");
        if output.status.signal().is_some() {
            return Outcome::Killed;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let document = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")) };
        if output.status.success() { Outcome::Success(document) } else { Outcome::Failure(document) }
    }

    /// `kill -9` after a time, unless it has ended.
    pub(crate) fn kill_after(mut self, time: Duration) -> Outcome {
        thread::sleep(time);
        self.0.kill().expect("the plugin is ours");
        self.finish()
    }
}
