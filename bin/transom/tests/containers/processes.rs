//! Processes of containers: numbers, exit codes, logs, signals, ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::container::{Event, Process, Spec, Streams};

use crate::sandbox::{self, LONG, World, log_path, shell, spec};

#[test]
fn a_container_has_numbers_names_and_codes_of_its_own() {
    sandbox::run("processes::a_container_has_numbers_names_and_codes_of_its_own", || {
        let world = World::new();
        let container = world.create(&spec());
        println!("\nnote: {:?}", container.notes());
        let (code, text) = shell(&container, "hostname; readlink /proc/1/exe; cat /proc/1/cmdline | tr '\\0' ' '; exit 7");
        assert_eq!(code, 7);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "web-0");
        assert_eq!(lines[1], env!("CARGO_BIN_EXE_transom"));
        assert!(lines[2].ends_with("container-init pod "), "{text}");
        assert_eq!(shell(&container, "kill -9 $$").0, 137);
        let network = fs::read_link(format!("/proc/{}/ns/net", container.init_pid())).unwrap();
        assert_ne!(network, fs::read_link("/proc/self/ns/net").unwrap());
        for kind in ["mnt", "pid", "ipc", "uts"] {
            let (own, other) = (format!("/proc/self/ns/{kind}"), format!("/proc/{}/ns/{kind}", container.init_pid()));
            assert_ne!(fs::read_link(own).unwrap(), fs::read_link(other).unwrap(), "{kind}");
        }
    });
}

#[test]
fn a_log_has_what_processes_write() {
    sandbox::run("processes::a_log_has_what_processes_write", || {
        let world = World::new();
        let container = world.create(&spec());
        let pid = container.spawn(&Process::new(["sh", "-c", "echo out; echo err >&2; printf rest"]), &Streams::Log).unwrap();
        assert_eq!(container.wait_process(pid, LONG), Some(0));
        container.stop(LONG).unwrap();
        let text = fs::read_to_string(log_path()).unwrap();
        let mut entries: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        entries.sort_unstable();
        assert_eq!(entries, ["stderr F err", "stdout F out", "stdout F rest"]);
        assert_eq!(*world.events.lock().unwrap(), [Event::Exited { pid, code: 0 }, Event::Ended]);
    });
}

#[test]
fn a_program_that_is_not_there_is_told() {
    sandbox::run("processes::a_program_that_is_not_there_is_told", || {
        let world = World::new();
        let container = world.create(&spec());
        let error = container.spawn(&Process::new(["no-such-program"]), &Streams::Null).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no-such-program"), "{error}");
        assert_eq!(shell(&container, "true").0, 0);
    });
}

#[test]
fn stopping_asks_first_and_leaves_nothing() {
    sandbox::run("processes::stopping_asks_first_and_leaves_nothing", || {
        let world = World::new();
        let before = processes();
        let container = world.create(&spec());
        let polite = container
            .spawn(&Process::new(["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"]), &Streams::Log);
        let polite = polite.unwrap();
        wait_for_log("up");
        container.stop(LONG).unwrap();
        assert!(fs::read_to_string(log_path()).unwrap().contains("stdout F bye"));
        assert!(world.events.lock().unwrap().contains(&Event::Exited { pid: polite, code: 3 }));
        assert_eq!(processes(), before);
        assert!(container.spawn(&Process::new(["true"]), &Streams::Null).is_err());
    });
}

#[test]
fn who_does_not_listen_is_killed_with_all_its_children() {
    sandbox::run("processes::who_does_not_listen_is_killed_with_all_its_children", || {
        let world = World::new();
        let before = processes();
        let container = world.create(&spec());
        container
            .spawn(&Process::new(["sh", "-c", "trap '' TERM; (setsid sleep 600 &) ; echo up; while :; do sleep 1; done"]), &Streams::Log)
            .unwrap();
        wait_for_log("up");
        let start = Instant::now();
        container.stop(Duration::from_millis(300)).unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(processes(), before);
    });
}

#[test]
fn containers_end_with_their_handle_and_when_init_is_killed() {
    sandbox::run("processes::containers_end_with_their_handle_and_when_init_is_killed", || {
        let world = World::new();
        let before = processes();
        let container = world.create(&spec());
        let pid = container.spawn(&Process::new(["sleep", "600"]), &Streams::Null).unwrap();
        container.signal(pid, 15).unwrap();
        assert_eq!(container.wait_process(pid, LONG), Some(143));
        assert!(container.signal(pid, 15).is_err());
        drop(container);
        assert_eq!(processes(), before);
        let container = world.create(&spec());
        container.spawn(&Process::new(["sleep", "600"]), &Streams::Null).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(container.init_pid() as i32), nix::sys::signal::Signal::SIGKILL).unwrap();
        assert!(container.wait(LONG));
        assert_eq!(processes(), before);
    });
}

#[test]
fn another_process_can_enter() {
    sandbox::run("processes::another_process_can_enter", || {
        let world = World::new();
        let container = world.create(&spec());
        assert_eq!(entered(container.init_pid()), (Some(5), "web-0\n0\n".into()));
        let init_pid = container.init_pid();
        drop(container);
        let (code, text) = entered(init_pid);
        assert!(code == Some(1) && text.contains("could not enter"), "{text}");
    });
}

#[test]
fn a_container_of_another_user_namespace_can_be_entered() {
    const TEST: &str = "processes::a_container_of_another_user_namespace_can_be_entered";
    const OWNER: &str = "TRANSOM_OWNER";
    if std::env::var_os(OWNER).is_some() {
        let network = host::namespace::current().unwrap();
        let supervisor = host::container::Supervisor::new(sandbox::program()).unwrap();
        let container = supervisor.create(&Spec { log: None, ..spec() }, &network, std::sync::Arc::new(|_| ())).unwrap();
        println!("\npid {}", container.init_pid());
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    sandbox::run(TEST, || {
        let exe = std::env::current_exe().unwrap();
        let mut owner = Command::new("unshare");
        owner.args(["--user", "--map-root-user", "--mount", "--net"]).arg(exe).args([TEST, "--exact", "--nocapture", "--test-threads=1"]);
        let mut owner = owner.env(OWNER, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
        let pid = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("pid ")?.parse().ok()).expect("a container is made");
        assert_eq!(entered(pid), (Some(5), "web-0\n0\n".into()));
        drop(owner.stdin.take());
        owner.wait().unwrap();
    });
}

/// Runs a command in a container by a process that does nothing else; its exit code, and what it has written.
fn entered(init_pid: u32) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    let output = command.args(["container-enter", &init_pid.to_string(), "sh", "-c", "hostname; id -u; exit 5"]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn many_containers_share_one_watcher() {
    sandbox::run("processes::many_containers_share_one_watcher", || {
        let world = World::new();
        let before = processes();
        let containers: Vec<_> = (0..40).map(|number| world.create(&Spec { id: format!("pod-{number}"), ..spec() })).collect();
        let pids: Vec<u32> =
            containers.iter().map(|container| container.spawn(&Process::new(["sh", "-c", "exit 9"]), &Streams::Log).unwrap()).collect();
        for (container, pid) in containers.iter().zip(pids) {
            assert_eq!(container.wait_process(pid, LONG), Some(9));
        }
        drop(containers);
        assert_eq!(processes(), before);
    });
}

/// All processes that this one can see.
fn processes() -> Vec<u32> {
    let mut all: Vec<u32> = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

fn wait_for_log(text: &str) {
    let start = Instant::now();
    while !fs::read_to_string(log_path()).is_ok_and(|log| log.contains(text)) {
        assert!(start.elapsed() < LONG, "{text} is never written");
        std::thread::sleep(Duration::from_millis(20));
    }
}
