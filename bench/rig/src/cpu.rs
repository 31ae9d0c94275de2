//! Where the two ends of a test run, and what processors the switch takes.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Where the two ends of a test run. The switch is never pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Wherever the kernel likes.
    Free,
    /// On two different CPUs.
    Split,
    /// Both on the same CPU.
    Same,
}

impl Placement {
    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Split => "client CPU 0, server CPU 1",
            Self::Same => "both on CPU 0",
        }
    }

    /// The CPU of the client, and that of the server.
    pub fn cpus(self) -> [Option<usize>; 2] {
        let allowed = allowed();
        let cpu = |number: usize| allowed.get(number).or(allowed.last()).copied();
        match self {
            Self::Free => [None, None],
            Self::Split => [cpu(0), cpu(1)],
            Self::Same => [cpu(0), cpu(0)],
        }
    }
}

/// The CPUs that we may use.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Binds the calling thread, and what it starts, to a CPU.
pub fn pin(cpu: Option<usize>) -> Result<(), String> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).map_err(|error| format!("cannot run on CPU {cpu}: {error}"))
}

/// Processor time that processes have used, in seconds, user and system together.
pub fn used(processes: &[u32]) -> f64 {
    let ticks: u64 = processes.iter().filter_map(|process| ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)).sum();
    ticks as f64 / ticks_per_second()
}

/// What the kernel counts processor time in.
pub fn ticks_per_second() -> f64 {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64
}

/// The 14th and 15th field of `/proc/PID/stat`. The second is a name in parentheses, which may itself hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_from_stat() {
        assert_eq!(ticks("7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 30 0 0 20 0 4 0 9 1 2"), Some(280));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn we_use_processors() {
        assert!(!allowed().is_empty());
        assert_eq!(Placement::Free.cpus(), [None, None]);
        let [client, server] = Placement::Same.cpus();
        assert!(client.is_some() && client == server);
    }
}
