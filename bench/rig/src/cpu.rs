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

/// Processor time that the whole machine has been busy for, in seconds, all CPUs and everything that ran on them together.
pub fn busy() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/stat").map_err(|error| format!("cannot read /proc/stat: {error}"))?;
    let ticks = busy_ticks(&stat).ok_or("/proc/stat does not say how busy the machine is")?;
    Ok(ticks as f64 / ticks_per_second())
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

/// The line of all CPUs in `/proc/stat`: user, nice, system, idle, waiting for disks, interrupts, soft interrupts. What follows is time
/// that the machine did not have, and time that is part of user and nice already.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, _idle, _waiting, interrupts, soft_interrupts, ..] = fields[..] else { return None };
    Some(user + nice + system + interrupts + soft_interrupts)
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
    fn a_machine_is_busy_where_it_is_not_idle() {
        let stat = "cpu  1000 200 30 90000 8000 4 5 700 1 1\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n";
        assert_eq!(busy_ticks(stat), Some(1239));
        assert_eq!(busy_ticks("cpu  1 2 3 4\n"), None);
        assert_eq!(busy_ticks("cpu0 1 2 3 4 5 6 7 8 9 10\n"), None);
        assert!(busy().is_ok_and(|seconds| seconds > 0.0));
    }

    #[test]
    fn we_use_processors() {
        assert!(!allowed().is_empty());
        assert_eq!(Placement::Free.cpus(), [None, None]);
        let [client, server] = Placement::Same.cpus();
        assert!(client.is_some() && client == server);
    }
}
