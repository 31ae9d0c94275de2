//! What a lab's processes take of the machine, by what they are.

use std::collections::BTreeMap;
use std::fs;

/// What the processes of one kind take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// How many there are.
    pub(crate) count: usize,
    /// Their memory in MiB. What several processes share, such as the program itself, counts for each by its part.
    pub(crate) memory: f64,
    /// Processor time in seconds, with that of processes that they started and that have ended.
    pub(crate) seconds: f64,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.memory += other.memory;
        self.seconds += other.seconds;
    }
}

/// All processes that have come from one, by kind.
pub(crate) fn of(root: u32) -> BTreeMap<String, Usage> {
    let children = children();
    let mut usage: BTreeMap<String, Usage> = BTreeMap::new();
    let mut waiting = vec![root];
    while let Some(process) = waiting.pop() {
        waiting.extend(children.get(&process).into_iter().flatten());
        // One that has just ended takes nothing any more.
        if let Some((kind, taken)) = read(process) {
            usage.entry(kind).or_default().add(taken);
        }
    }
    usage
}

/// Everything together.
pub(crate) fn sum(usage: &BTreeMap<String, Usage>) -> Usage {
    let mut all = Usage::default();
    usage.values().for_each(|kind| all.add(*kind));
    all
}

fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(parent) = stat(process).and_then(|fields| fields.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    children
}

/// The fields of `/proc/PID/stat` from the third on. The second is a name in parentheses, which may itself hold blanks.
fn stat(process: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn read(process: u32) -> Option<(String, Usage)> {
    let command = fs::read_to_string(format!("/proc/{process}/cmdline")).ok()?;
    let words: Vec<&str> = command.split('\0').skip(1).collect();
    let memory = memory(&fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?);
    // User and system time of its own, and of its children that it has waited for.
    let ticks: u64 = stat(process)?.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((kind(&words), Usage { count: 1, memory, seconds: ticks as f64 / rig::cpu::ticks_per_second() }))
}

/// The proportional set size in MiB.
fn memory(rollup: &str) -> f64 {
    let size = rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    size.unwrap_or_default() / 1024.0
}

/// What a process is, by the words after its program.
fn kind(words: &[&str]) -> String {
    match words {
        ["lab", "process", role, ..] => format!("lab {role}"),
        ["container-init", ..] => "init of a container".to_owned(),
        ["agnhost", "netexec", ..] => "server of a pod".to_owned(),
        ["netexec", ..] => "server of a node".to_owned(),
        [role, ..] => (*role).to_owned(),
        [] => "other".to_owned(),
    }
}

/// What the kernel keeps for everything that runs, in MiB: for processes, namespaces, devices and mounts. It is the whole machine's.
pub(crate) fn kernel_memory() -> f64 {
    let information = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        let line = information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok()).unwrap_or_default()
    };
    ["SUnreclaim", "KernelStack", "PageTables", "Percpu"].iter().map(|name| of(name)).sum::<f64>() / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_sizes_are_read() {
        assert_eq!(kind(&["lab", "process", "supervisor", "x"]), "lab supervisor");
        assert_eq!(kind(&["agnhost", "netexec"]), "server of a pod");
        assert_eq!(kind(&["vswitchd", "--socket"]), "vswitchd");
        assert!((memory("Rss:  4096 kB\nPss:                2048 kB\nPss_Anon: 1 kB\n") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn we_are_one_of_our_own() {
        let all = sum(&of(std::process::id()));
        assert!(all.count >= 1 && all.memory > 0.0);
        assert!(kernel_memory() > 0.0);
    }
}
