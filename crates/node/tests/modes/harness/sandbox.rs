//! A process of its own for each test, in namespaces of its own.

use std::fs::File;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::unistd::geteuid;

use super::agent;
use crate::program::program;

/// Set in the process inside.
const INSIDE: &str = "TRANSOM_MODES_INSIDE";

/// What a line begins with that is to be seen also if the test passes, such as a seed.
pub(crate) const NOTE: &str = "note: ";

/// What a namespace for processes takes: whatever is started in it ends with the test.
const PROCESSES: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Runs the body of the test called `test` (with its module) in a sandbox, or says why it cannot be.
pub(crate) fn run(test: &str, body: impl FnOnce()) {
    run_with(test, &[], body);
}

/// The same with further variables in its environment, for a test that is played several times.
pub(crate) fn run_with(test: &str, variables: &[(&str, String)], body: impl FnOnce()) {
    // Wine leaves processes behind.
    enter(test, if agent::are_windows_programs() { &PROCESSES } else { &[] }, variables, body);
}

/// The same with processes of its own, for programs that leave others behind.
pub(crate) fn run_with_own_processes(test: &str, body: impl FnOnce()) {
    enter(test, &PROCESSES, &[], body);
}

fn enter(test: &str, more: &[&str], variables: &[(&str, String)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        own_file_systems();
        return body();
    }
    if let Some(why) = obstacle() {
        return println!("skipped: {why}");
    }
    let exe = std::env::current_exe().expect("a program knows where it is");
    let mut inside = unshare();
    inside.args(more).arg(exe).args([test, "--exact", "--nocapture", "--test-threads=1"]);
    inside.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = inside.env(INSIDE, "1").env("TRANSOM_PROGRAM", program()).output().expect("unshare starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "no test is called {test}");
    text.lines().filter(|line| line.starts_with("skipped") || line.starts_with(NOTE)).for_each(|line| println!("{line}"));
}

/// What keeps worlds from being made here.
fn obstacle() -> Option<String> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/net/tun") {
        return Some(format!("/dev/net/tun cannot be opened: {error}"));
    }
    if let Some(missing) = missing("ip") {
        return Some(missing);
    }
    match unshare().arg("true").output() {
        Err(error) => Some(format!("the command unshare cannot be run: {error}")),
        Ok(output) if !output.status.success() => Some(format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr))),
        Ok(_) => None,
    }
}

/// Says that a command is not here, if it is not.
pub(crate) fn missing(command: &str) -> Option<String> {
    Command::new(command)
        .arg("--version")
        .env("PATH", path())
        .output()
        .err()
        .map(|error| format!("the command {command} cannot be run: {error}"))
}

/// Where administrators' commands are, also for users whose path does not say so.
pub(crate) fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net"]);
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// Sockets, namespaces and state are in file systems that go with the test.
fn own_file_systems() {
    let none: Option<&str> = None;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("a file system in /run");
    if let Err(error) = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none) {
        println!("mounts may be seen elsewhere: {error}");
    }
}
