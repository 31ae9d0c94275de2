//! hnsd as a process of its own, with a state of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hcn::client::{Address, Client};
use tempfile::TempDir;

/// A running hnsd. Dropping it ends it and removes its state.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    directory: TempDir,
}

impl Service {
    /// Starts a fresh one and waits until it is ready.
    pub(crate) fn start(transom: &Path) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("cannot make a directory for the state: {error}"))?;
        let child = Command::new(transom)
            .args(["hnsd", "--switch", "none", "--log-level", "warn"])
            .args(["--adapter", "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01"])
            .arg("--state-dir")
            .arg(directory.path().join("state"))
            .arg("--socket")
            .arg(directory.path().join("hnsd.sock"))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", transom.display()))?;
        let mut service = Self { child, directory };
        service.wait_until_ready()?;
        Ok(service)
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("hnsd.sock")
    }

    /// A new client of it.
    pub(crate) fn client(&self) -> Client {
        Client::new(Address::Unix(self.socket()))
    }

    /// Memory that it occupies, in megabytes of a million bytes.
    pub(crate) fn resident_mb(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let kib = resident_kib(&status).ok_or_else(|| format!("{path} has no VmRSS"))?;
        Ok(kib * 1024.0 / 1e6)
    }

    /// Processor time that all its threads have used, in nanoseconds.
    pub(crate) fn processor_ns(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let used = |path: PathBuf| fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
        tasks.filter_map(|task| used(task.path())).sum()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let output = self.child.stdout.as_mut().ok_or("hnsd has no output")?;
        let ready = BufReader::new(output).lines().map_while(Result::ok).any(|line| line.starts_with("ready"));
        if ready { Ok(()) } else { Err("hnsd ended before it was ready".into()) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resident_kib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status() {
        assert_eq!(resident_kib("Name:\thnsd\nVmRSS:\t   35812 kB\nThreads:\t3\n"), Some(35812.0));
        assert_eq!(resident_kib("Name:\thnsd\n"), None);
    }
}
