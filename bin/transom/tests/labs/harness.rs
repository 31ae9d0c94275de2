//! A lab of a test: a directory of its own, so that it meets no other, and an end whatever happens.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Two Windows nodes and a pod on each.
pub(crate) const SMALL: &str = "\
apiVersion: transom/v1
kind: Lab
nodes:
  - {name: win1, os: windows}
  - {name: win2, os: windows}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {nodeName: win1, terminationGracePeriodSeconds: 1, containers: [{name: main, image: agnhost, args: [netexec]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b}
spec: {nodeName: win2, terminationGracePeriodSeconds: 1, containers: [{name: main, image: agnhost, args: [netexec]}]}
";

/// The labs of a test.
pub(crate) struct Labs {
    directory: TempDir,
}

impl Labs {
    /// None yet; nothing where there can be none, and why is said.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = File::options().read(true).write(true).open("/dev/net/tun") {
            println!("skipped: /dev/net/tun cannot be opened: {error}");
            return None;
        }
        let unshare = Command::new("unshare").args(["--user", "--map-root-user", "true"]).output();
        if !nix::unistd::geteuid().is_root() && !unshare.is_ok_and(|output| output.status.success()) {
            println!("skipped: there are no user namespaces here");
            return None;
        }
        Some(Self { directory: tempfile::tempdir().expect("a directory") })
    }

    /// The command, for these labs.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.args(arguments).env("TRANSOM_LAB_DIR", self.home()).env_remove("TRANSOM_LAB").stdin(Stdio::null());
        command
    }

    /// Where labs have their directories.
    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("labs")
    }

    /// Where the test has its files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A file of the test.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// Runs the command, which has to succeed, and answers what it prints.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs the command, which has to fail with an exit code, and answers what it says.
    pub(crate) fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// Whether a pod of the lab `default` reaches a port.
    pub(crate) fn reaches(&self, pod: &str, address: &str, port: u16) -> bool {
        let script = format!("exec 3<>/dev/tcp/{address}/{port}");
        self.run(&["lab", "exec", pod, "--", "timeout", "1", "bash", "-c", &script]).status.success()
    }

    /// What a lab says of itself.
    pub(crate) fn status(&self, name: &str) -> Value {
        serde_json::from_str(&self.ok(&["lab", "status", "--name", name, "-o", "json"])).expect("JSON")
    }

    /// The processes of the machine that belong to these labs: their command lines name one, or they are in its namespaces.
    pub(crate) fn processes(&self) -> Vec<String> {
        let home = self.home().display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("processes").flatten() {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            // Everything in a lab has the variable from whoever started it, or was started by one that had.
            if String::from_utf8_lossy(&environment).contains(&home) {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(format!("{} {}", entry.file_name().to_string_lossy(), text(&command).replace('\0', " ")));
            }
        }
        found
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        // A test that failed leaves no lab behind either.
        _ = self.run(&["lab", "down", "--all"]);
    }
}

/// The address of a pod, of IPv4.
pub(crate) fn address_of(status: &Value, pod: &str) -> String {
    let pods = status["pods"].as_array().expect("pods");
    let pod = pods.iter().find(|it| it["name"] == pod).unwrap_or_else(|| panic!("no pod {pod}: {status}"));
    pod["addresses"][0].as_str().expect("an address").to_owned()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what} has not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The mounts of this machine, as this process sees them.
pub(crate) fn mounts() -> usize {
    fs::read_to_string(Path::new("/proc/self/mountinfo")).expect("mounts").lines().count()
}

/// Text of a program.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
