//! Kubernetes' own API server, and ours, before the same tests.
//!
//! The programs, etcd among them, are ordinary dependencies of the Go module `interop/kubernetes`. Debian 12 has an etcd too, of a version
//! that cannot tell kube-apiserver how far a watch has come, without which watches that begin with a list are refused. The tests are those
//! of the crate `cluster` (`crates/cluster/tests/semantics`, and `mirror` for our own client), which know nothing of how the servers are
//! made. Those of our agents (`crates/node/tests`) start the server themselves, inside the world that each of them makes.

#[path = "../../../crates/node/tests/support/kubernetes.rs"]
mod control_plane;
mod original;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) use self::original::Original;
use super::{Log, limited, make_directory, step};
use crate::tools::{self, Tool};
use crate::{dist, schema, shell};

/// What kube-proxy needs.
const TOOLS: &[Tool] = &[
    Tool { program: "ip", package: "iproute2", purpose: "makes a namespace usable" },
    Tool { program: "nft", package: "nftables", purpose: "is what kube-proxy calls" },
];

/// Building and running the tests.
const LIMIT: Duration = Duration::from_secs(1500);

/// The tests of our agents: target, and whatever the names begin with.
const AGENTS: [(&str, &str); 2] = [("modes", "kube_proxy::"), ("flannel", "")];

/// How many of them at once: each has a server of its own, which takes a core while it starts.
const AGENTS_AT_ONCE: &str = "2";

/// Our tables of Kubernetes' types, the tests with Kubernetes' own server, then with ours, then Kubernetes' own clients with ours, and labs
/// and our agents with Kubernetes' own server.
pub(super) fn run() -> Result<(), String> {
    let (directory, original) = start()?;
    step("compare the tables of types");
    schema::run(true)?;
    step("run the tests with the original");
    battery(&directory.join("original.log"), Some(&original.kubeconfig()))?;
    labs_in(&directory, &original)?;
    drop(original);
    step("run the tests with ours");
    battery(&directory.join("ours.log"), None)?;
    step("run kubectl and kube-proxy with ours");
    clients(&directory)?;
    agents_with(&directory)
}

/// Our agents with Kubernetes' own server, and nothing else.
pub(super) fn agents() -> Result<(), String> {
    agents_with(&build()?)
}

/// Labs in a cluster of Kubernetes' own, and nothing else.
pub(super) fn labs() -> Result<(), String> {
    let (directory, original) = start()?;
    labs_in(&directory, &original)
}

/// Runs the tests of labs in a cluster that is there already, one after the other: there is one cluster.
fn labs_in(directory: &Path, original: &Original) -> Result<(), String> {
    step("run labs in the original's cluster");
    let mut cargo = shell::cargo();
    cargo.args(["test", "--workspace", "--test", "labs", "--", "joined::", "--nocapture", "--test-threads", "1"]);
    run_all(cargo.env("TRANSOM_KUBECONFIG", original.kubeconfig()), &directory.join("labs.log"))
}

/// Builds and starts Kubernetes' own server, and tells where its programs are.
pub(crate) fn start() -> Result<(PathBuf, Original), String> {
    let directory = build()?;
    step("start etcd, kube-apiserver and kube-controller-manager");
    let original = Original::start(&directory)?;
    Ok((directory, original))
}

fn build() -> Result<PathBuf, String> {
    if shell::output(shell::program("go").arg("version")).is_err() {
        return Err("go is needed; install it, for example with `apt install golang-go`".to_owned());
    }
    let directory = dist::target_directory()?.join("interop").join("kubernetes");
    make_directory(&directory)?;
    step("build Kubernetes");
    programs::build(&directory)?;
    Ok(directory)
}

/// Builds kube-proxy for Windows, and tells where it is.
pub(crate) fn windows_proxy() -> Result<PathBuf, String> {
    let directory = dist::target_directory()?.join("interop").join("kubernetes-windows");
    make_directory(&directory)?;
    step("build kube-proxy.exe");
    programs::build_for_windows(&directory)?;
    Ok(directory.join("kube-proxy.exe"))
}

/// Runs the tests with programs that take what our server says for what a cluster says.
fn clients(directory: &Path) -> Result<(), String> {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--workspace", "--test", "kubectl", "--test", "kube_proxy", "--", "--nocapture"]);
    cargo.env("TRANSOM_KUBECTL", directory.join("kubectl")).env("TRANSOM_KUBE_PROXY", directory.join("kube-proxy"));
    run_all(&mut cargo, &directory.join("clients.log"))
}

/// Tests of agents whose API is a script, or whose trouble is with others than the API: the original has no part in them.
const SCRIPTED: [&str; 3] = ["an_hns_that_hangs", "an_api_that_refuses", "a_watch_that_breaks"];

/// Runs the tests of our agents with Kubernetes' own server in the place of ours.
fn agents_with(directory: &Path) -> Result<(), String> {
    for (target, names) in AGENTS {
        step(&format!("run the tests {target}/{names} with the original"));
        let mut cargo = shell::cargo();
        cargo.args(["test", "--workspace", "--test", target, "--", names, "--nocapture", "--test-threads", AGENTS_AT_ONCE]);
        SCRIPTED.iter().for_each(|name| _ = cargo.args(["--skip", name]));
        cargo.env("TRANSOM_KUBERNETES", directory);
        run_all(&mut cargo, &directory.join(format!("agents-{target}.log")))?;
    }
    Ok(())
}

/// Runs tests, and shows how each of them ended. One that is left out is a failure.
fn run_all(cargo: &mut Command, log: &Path) -> Result<(), String> {
    let path = tools::path();
    tools::install(&tools::missing(TOOLS, &path))?;
    let mut log = Log::create(log)?;
    let mut left_out = false;
    let status = limited::run(cargo.env("PATH", path), LIMIT, |line| {
        log.add(line);
        left_out |= line.starts_with("skipped: ");
        if line.starts_with("test ") {
            println!("{line}");
        }
    })?;
    match status.success() && !left_out {
        true => Ok(()),
        false => Err(format!("tests failed or were left out: {status}; see {}", log.path.display())),
    }
}

/// Runs the tests with the server of a kubeconfig, or with one of ours that they start.
fn battery(log: &Path, kubeconfig: Option<&Path>) -> Result<(), String> {
    let mut cargo = shell::cargo();
    // Most of them wait for a controller most of the time.
    cargo.args(["test", "--workspace", "--test", "semantics", "--test", "mirror", "--", "--test-threads", "8"]);
    cargo.env_remove("TRANSOM_KUBECONFIG").env_remove("TRANSOM_IS_ORIGINAL");
    if let Some(kubeconfig) = kubeconfig {
        cargo.env("TRANSOM_KUBECONFIG", kubeconfig).env("TRANSOM_IS_ORIGINAL", "1");
    }
    let mut log = Log::create(log)?;
    let mut summary = Vec::new();
    let status = limited::run(&mut cargo, LIMIT, |line| {
        log.add(line);
        if line.ends_with("... FAILED") || line.starts_with("error") {
            println!("{line}");
        }
        if line.starts_with("test result: ") {
            summary.push(line.to_owned());
        }
    })?;
    println!("{}", summary.join("\n"));
    if status.success() { Ok(()) } else { Err(format!("the tests failed: {status}; see {}", log.path.display())) }
}

/// Writes a file that a program of theirs reads.
fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
