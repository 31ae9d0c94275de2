//! `cargo xtask ci`: everything that must hold before a change goes in, in order, stopping at the first failure.

use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::{bpf, dist, interop, labs, shell, test, tidy};

/// One thing that must hold.
struct Step {
    name: &'static str,
    run: fn() -> Result<(), String>,
}

/// How long a step may take, several times what the longest does. One that hangs shall say where, instead of being ended by whoever runs CI.
const STEP_LIMIT: Duration = Duration::from_secs(40 * 60);

/// How many rounds the crash test plays here; `cargo test` plays a few.
const CRASH_ROUNDS: &str = "100";

/// How many seeds of chaos the Service proxy has to bear here, in memory and as real processes; `cargo test` plays some.
const CHAOS_SEEDS: [(&str, &str); 2] = [("proxier", "1000"), ("modes", "25")];

/// The packages with code for Windows, and those below them.
const WINDOWS_PACKAGES: &[&str] = &["transom", "host", "abi", "computenetwork", "vmcompute", "bcryptprimitives"];

/// Tests are always those of the workspace: of one package alone, cargo would build libraries with other features, and so once more.
///
/// The cheap and telling ones first, except that the tests come before everything: they are what people look for.
const STEPS: &[Step] = &[
    Step { name: "test", run: || test::run(&[]) },
    Step { name: "format", run: || shell::run(shell::cargo().args(["fmt", "--all", "--check"])) },
    Step { name: "clippy", run: clippy },
    Step { name: "clippy for Windows", run: clippy_for_windows },
    Step { name: "tidy", run: tidy::run },
    Step { name: "shellcheck", run: || shell::run(shell::program("shellcheck").arg(".ci/run")) },
    Step { name: "bpf", run: || bpf::run(true) },
    Step { name: "crash test", run: crash_test },
    Step { name: "chaos", run: chaos },
    Step { name: "packets by tap", run: by_tap },
    Step { name: "labs", run: labs::run },
    Step { name: "dist", run: dist::run },
    Step { name: "interop hcsshim", run: || interop::run("hcsshim") },
    Step { name: "interop wine", run: || interop::run("wine") },
    Step { name: "interop cni", run: || interop::run("cni") },
    Step { name: "interop runtime", run: || interop::run("runtime") },
    Step { name: "interop kubernetes", run: || interop::run("kubernetes") },
    Step { name: "interop windows-agents", run: || interop::run("windows-agents") },
];

/// Runs all steps.
pub(crate) fn run() -> Result<(), String> {
    let start = Instant::now();
    let mut done = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        println!("\n==> {}/{} {}", index + 1, STEPS.len(), step.name);
        let start = Instant::now();
        let watched = watch_over(step.name);
        let outcome = (step.run)();
        drop(watched);
        let took = start.elapsed();
        println!("<== {} {} in {}", step.name, if outcome.is_ok() { "passed" } else { "FAILED" }, clock(took));
        done.push((took, outcome.is_ok()));
        if let Err(message) = outcome {
            println!("\n{}", table(&done));
            return Err(format!("{} failed: {message}", step.name));
        }
    }
    println!("\n{}\nall passed in {}", table(&done), clock(start.elapsed()));
    Ok(())
}

/// Ends everything, with a list of what runs, if a step is not over in time. It is over when the answer is dropped.
fn watch_over(step: &'static str) -> Sender<()> {
    let (over, watched) = mpsc::channel();
    thread::spawn(move || {
        if watched.recv_timeout(STEP_LIMIT) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        println!("\n{step} is not over after {}; what runs:", clock(STEP_LIMIT));
        // Without a list there is still the name of the step.
        let _ = shell::run(shell::program("ps").args(["-eo", "pid,ppid,etime,stat,wchan:24,args", "--forest"]));
        process::exit(1);
    });
    over
}

fn clippy() -> Result<(), String> {
    shell::run(shell::cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// What is compiled for Windows only, no other step would lint.
fn clippy_for_windows() -> Result<(), String> {
    let mut command = shell::cargo();
    command.args(["clippy", "--target", "x86_64-pc-windows-gnu"]);
    for package in WINDOWS_PACKAGES {
        command.args(["--package", package]);
    }
    shell::run(command.args(["--", "-D", "warnings"]))
}

fn crash_test() -> Result<(), String> {
    let mut command = shell::cargo();
    command.args(["test", "--workspace", "--test", "crash", "--", "--nocapture", "--test-threads", "1"]);
    shell::run(command.env("TRANSOM_CRASH_ROUNDS", CRASH_ROUNDS))
}

fn chaos() -> Result<(), String> {
    CHAOS_SEEDS.iter().try_for_each(|(target, seeds)| {
        let mut command = shell::cargo();
        command.args(["test", "--workspace", "--test", target, "chaos"]);
        // `test` has played some by the kernel already.
        shell::run(command.env("TRANSOM_CHAOS_SEEDS", seeds).env("TRANSOM_DATA_PATH", "tap"))
    })
}

/// The tests with packets once more, by the data path that `test` did not take: as root that is the kernel's. Chaos and half of the labs take it too.
fn by_tap() -> Result<(), String> {
    let mut command = shell::cargo();
    command.args(["test", "--workspace", "--test", "modes", "--test", "flannel", "--test", "runtimes", "--"]);
    command.args([
        "l2bridge",
        "l2tunnel",
        "overlay",
        "nat",
        "transparent",
        "services",
        "policies",
        "acl",
        "dsr",
        "restart",
        "hostile",
        "linux",
    ]);
    // Plugins and agents.
    command.args(["cni", "storm", "kube_proxy", "hns::", "mixed::"]);
    for other in ["kernel_flows", "kernel_services", "chaos", "compared"] {
        command.args(["--skip", other]);
    }
    shell::run(command.env("TRANSOM_DATA_PATH", "tap"))
}

/// What became of every step, and how long it took.
fn table(done: &[(Duration, bool)]) -> String {
    let row = |(index, step): (usize, &Step)| {
        let (time, word) = match done.get(index) {
            Some((took, true)) => (clock(*took), "passed"),
            Some((took, false)) => (clock(*took), "FAILED"),
            None => (String::new(), "not run"),
        };
        format!("{:<22} {time:>8}  {word}", step.name)
    };
    STEPS.iter().enumerate().map(row).collect::<Vec<_>>().join("\n")
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round();
    format!("{}:{:02}", (seconds / 60.0).floor(), seconds % 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_was_not_reached() {
        let table = table(&[(Duration::from_secs(61), true), (Duration::from_secs(2), false)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "test                       1:01  passed");
        assert_eq!(lines[1], "format                     0:02  FAILED");
        assert_eq!(lines[2], "clippy                           not run");
        assert_eq!(lines.len(), STEPS.len());
    }
}
