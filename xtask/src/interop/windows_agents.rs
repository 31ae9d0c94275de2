//! The agents on Windows: Kubernetes' own kube-proxy.exe beside ours on our HNS, and the agents of transom.exe under Wine.
//!
//! The tests are those of the crate `node`, in namespaces of their own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Ground, Log, kubernetes, lab, limited, service, step};
use crate::{dist, shell};

/// Building and running the tests of one part.
const LIMIT: Duration = Duration::from_secs(1500);

/// All parts.
pub(super) fn run() -> Result<(), String> {
    if !dist::can_start("wine") {
        return Err("wine is needed; install it, for example with `apt install wine64`".to_owned());
    }
    let original = kubernetes::windows_proxy()?;
    let ground = Ground::prepare()?;
    service::run(&ground)?;
    // What Wine keeps in the background would serve programs of the tests, outside of their namespaces.
    ground.prefix.end()?;
    step("kube-proxy.exe and ours");
    let mut compare = tests(&ground, &["--test", "modes", "--", "compared::", "--nocapture"]);
    play(compare.env("TRANSOM_KUBE_PROXY_EXE", &original), &ground.directory.join("compared.log"))?;
    lab::play(&ground, &original)?;
    let exe = dist::directory().join("transom.exe");
    for (agent, test) in [("kube-proxy", ["modes", "kube_proxy::"]), ("flanneld", ["flannel", ""])] {
        step(&format!("{agent} of transom.exe"));
        let mut command = tests(&ground, &["--test", test[0], "--", test[1], "--nocapture", "--test-threads", "1"]);
        play(command.env("TRANSOM_EXE", &exe), &ground.directory.join(format!("{agent}.log")))?;
    }
    Ok(())
}

/// Tests of the crate `node`, for which Wine is ready.
fn tests(ground: &Ground, arguments: &[&str]) -> Command {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--workspace"]).args(arguments);
    ground.prefix.surround(&mut cargo);
    cargo
}

/// Runs them. Leaving one out is a failure.
fn play(command: &mut Command, log: &Path) -> Result<(), String> {
    let mut log = Log::create(log)?;
    let mut left_out = false;
    let status = limited::run(command, LIMIT, |line| {
        log.add(line);
        left_out |= line.starts_with("skipped: ");
        if line.starts_with("test ") || line.starts_with("not played: ") {
            println!("{line}");
        }
    })?;
    match status.success() && !left_out {
        true => Ok(()),
        false => Err(format!("tests failed or were left out: {status}; see {}", log.path.display())),
    }
}
