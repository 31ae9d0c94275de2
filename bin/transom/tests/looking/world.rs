//! A lab for one test, in a directory of its own. It ends with the test.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// What the lab is called.
pub(crate) const LAB: &str = "looking";

/// Long enough for any step on a slow machine.
const LONG: Duration = Duration::from_secs(30);

const TOPOLOGY: &str = "\
apiVersion: transom/v1
kind: Lab
nodes: [{name: win1, os: windows}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {containers: [{name: it, image: agnhost, args: [netexec]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: web}}
spec: {containers: [{name: it, image: agnhost, args: [netexec]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
";

/// A lab that is up.
pub(crate) struct World {
    directory: TempDir,
    status: Value,
}

impl World {
    /// Starts it; none where the machine does not let us.
    pub(crate) fn up() -> Option<Self> {
        if let Some(why) = obstacle() {
            println!("skipped: {why}");
            return None;
        }
        let mut world = Self { directory: tempfile::tempdir().unwrap(), status: Value::Null };
        let file = world.directory().join("lab.yaml");
        std::fs::write(&file, TOPOLOGY).unwrap();
        let output = world.run(&["lab", "up", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        world.status = serde_json::from_slice(&world.run(&["lab", "status", "-o", "json"]).stdout).unwrap();
        Some(world)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The program, told of this lab.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.args(arguments).env("TRANSOM_LAB_DIR", self.directory().join("labs")).env("TRANSOM_LAB", LAB);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The first address of a pod.
    pub(crate) fn address_of(&self, pod: &str) -> IpAddr {
        let pods = self.status["pods"].as_array().unwrap();
        let found = pods.iter().find(|it| it["name"] == pod).expect("the pod");
        found["addresses"][0].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        _ = self.command(&["lab", "down"]).output();
    }
}

/// Why there can be no lab here.
fn obstacle() -> Option<String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork"]);
    if !nix::unistd::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    match unshare.arg("true").output() {
        Err(error) => Some(format!("a command cannot be run: {error}")),
        Ok(output) if !output.status.success() => Some(format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr))),
        Ok(_) if !Path::new("/dev/net/tun").exists() => Some("there is no /dev/net/tun".to_owned()),
        Ok(_) => None,
    }
}

/// Waits until something is so.
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
