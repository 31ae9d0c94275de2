//! ADD and DEL over and over: after thousands of pods the node is as it was after some hundred.
//!
//! `TRANSOM_CYCLES` sets how many there are; `cargo test` does some hundred, which is enough to see what each of them leaves.

use std::fmt;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::audit::{Audit, Live};
use crate::fleet::{self, Pod};
use crate::harness::sandbox::NOTE;
use crate::harness::{Node, World, run};
use crate::{alone, number};

/// Few enough for every test run.
const CYCLES: u64 = 500;

/// After so many, caches and pools have the size that they keep.
const WARM: u64 = 200;

/// How much a daemon's memory may grow, whatever the number of cycles: hnsd keeps the last events, which are 4 MiB when there are
/// enough of them, and the system gives vswitchd a huge page or two. So of ten thousand cycles none leaves a kilobyte.
const SLACK_KIB: u64 = 8 << 10;

/// The journal is compacted when it has 4 MiB, beside those who go on writing. Without that it grows by some kilobytes a cycle.
const STATE_LIMIT: u64 = 6 << 20;

/// How many descriptors and threads may come and go: connections and pools of threads that wait to be of use again.
const COMING_AND_GOING: u64 = 12;

#[test]
fn nothing_grows_with_the_number_of_pods() {
    let _turn = alone();
    run("cycles::nothing_grows_with_the_number_of_pods", || {
        let cycles = number("TRANSOM_CYCLES").unwrap_or(CYCLES);
        let world = World::new(1);
        let node = world.one();
        let plugins = fleet::plugins(&world);
        let audit = Audit::new(node, &plugins);
        let pods = fleet::pods(node, &plugins, plugins.len());
        cycle(&pods, WARM);
        let before = Figures::of(node);
        let start = Instant::now();
        cycle(&pods, cycles);
        let took = start.elapsed().as_secs_f64();
        let after = Figures::of(node);
        println!("{NOTE}after {WARM} cycles: {before}");
        println!("{NOTE}after {cycles} more, in {took:.0} s: {after}");
        audit.expect(&pods, &Live::new());
        after.expect_no_more_than(&before);
    });
}

/// So many cycles, spread over pods that go through them at once.
fn cycle(pods: &[Pod<'_>], cycles: u64) {
    let each = cycles.div_ceil(pods.len() as u64);
    thread::scope(|scope| {
        for pod in pods {
            scope.spawn(move || {
                for _ in 0..each {
                    pod.add();
                    pod.del();
                }
            });
        }
    });
}

/// What may grow.
struct Figures {
    hnsd: Process,
    vswitchd: Process,
    state: u64,
    files: u64,
    links: u64,
    ports: u64,
    rules: u64,
}

impl Figures {
    fn of(node: &Node) -> Self {
        crate::audit::nothing_goes(node);
        let process = |daemon: &Option<crate::harness::node::Daemon>| Process::of(daemon.as_ref().expect("it runs").id());
        Self {
            hnsd: process(&node.hnsd),
            vswitchd: process(&node.vswitchd),
            state: size(&node.file("state")),
            files: ["state", "addresses", "namespaces"].iter().map(|name| count(&node.file(name))).sum(),
            links: node.netlink().links().expect("the links").len() as u64,
            ports: length(&node.look("/ports")),
            rules: length(&node.look("/rules")),
        }
    }

    fn expect_no_more_than(&self, before: &Self) {
        self.hnsd.expect_no_more_than(&before.hnsd, "hnsd");
        self.vswitchd.expect_no_more_than(&before.vswitchd, "vswitchd");
        assert!(self.state < STATE_LIMIT, "the state of hnsd has {} bytes: {self}", self.state);
        let numbers = |figures: &Self| (figures.files, figures.links, figures.ports, figures.rules);
        assert_eq!(numbers(self), numbers(before), "files, links, ports or rules");
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hnsd, vswitchd, state, files, links, ports, rules } = self;
        write!(f, "hnsd {hnsd}, vswitchd {vswitchd}, state {state} bytes, {files} files, {links} links, {ports} ports, {rules} rules")
    }
}

/// What a daemon has of the machine.
struct Process {
    memory_kib: u64,
    threads: u64,
    descriptors: u64,
}

impl Process {
    fn of(id: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the daemon runs");
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).and_then(|rest| rest.split_whitespace().next());
            line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {key} in {status}"))
        };
        Self { memory_kib: value("VmRSS:"), threads: value("Threads:"), descriptors: count(Path::new(&format!("/proc/{id}/fd"))) }
    }

    fn expect_no_more_than(&self, before: &Self, whose: &str) {
        assert!(self.memory_kib < before.memory_kib + SLACK_KIB, "the memory of {whose}: {before}, then {self}");
        assert!(self.descriptors < before.descriptors + COMING_AND_GOING, "the descriptors of {whose}: {before}, then {self}");
        assert!(self.threads < before.threads + COMING_AND_GOING, "the threads of {whose}: {before}, then {self}");
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB, {} threads, {} descriptors", self.memory_kib, self.threads, self.descriptors)
    }
}

fn length(rows: &Value) -> u64 {
    rows.as_array().map_or_else(|| panic!("no list: {rows}"), |rows| rows.len() as u64)
}

/// How many files there are below a directory.
fn count(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.file_type().is_ok_and(|kind| kind.is_dir()) { count(&entry.path()) } else { 1 }).sum()
}

/// How many bytes the files of a directory have.
fn size(directory: &Path) -> u64 {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}
