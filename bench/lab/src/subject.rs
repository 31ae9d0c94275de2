//! A lab, driven by its command line as anybody would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rig::sandbox::DIRECTORY;
use serde_json::Value;

/// What every lab of this program is called.
const NAME: &str = "measured";

/// A lab that is up.
#[derive(Debug)]
pub(crate) struct Subject {
    transom: PathBuf,
    /// Seconds that it took to be up.
    pub(crate) up: f64,
    /// What of them each step took.
    pub(crate) steps: Vec<(String, f64)>,
}

/// What came of trying flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flows {
    pub(crate) tried: usize,
    pub(crate) works: usize,
    pub(crate) seconds: f64,
}

impl Subject {
    /// Makes a lab of a file's text; without one, the built-in lab.
    pub(crate) fn up(transom: &Path, text: Option<&str>) -> Result<Self, String> {
        let mut command = lab(transom, &["up"]);
        if let Some(text) = text {
            let file = Path::new(DIRECTORY).join("lab.yaml");
            fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            command.arg(file);
        }
        let begin = Instant::now();
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start a lab: {error}"))?;
        let up = begin.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(Self { transom: transom.to_owned(), up, steps: said.lines().filter_map(step).collect() }),
            false => Err(format!("the lab does not go up: {}", said.trim())),
        }
    }

    /// Seconds that a step took.
    pub(crate) fn step(&self, name: &str) -> f64 {
        self.steps.iter().filter(|(known, _)| known == name).map(|(_, seconds)| seconds).sum()
    }

    /// The process that all others have come from.
    pub(crate) fn process(&self) -> Result<u32, String> {
        let file = directory().join(NAME).join("pid");
        let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        text.trim().parse().map_err(|_| format!("{} has no number", file.display()))
    }

    /// How many pods are ready, and how many there are.
    pub(crate) fn pods(&self) -> Result<(usize, usize), String> {
        let status = ask(lab(&self.transom, &["status", "-o", "json"]))?;
        let pods = status["pods"].as_array().ok_or("the lab's status has no pods")?;
        Ok((pods.iter().filter(|pod| pod["isReady"] == true).count(), pods.len()))
    }

    /// Tries flows between some of its pods.
    pub(crate) fn flows(&self, pairs: usize, seed: u64) -> Result<Flows, String> {
        let begin = Instant::now();
        let outcomes = ask(lab(&self.transom, &["flows", "-o", "json", "--sample", &pairs.to_string(), "--seed", &seed.to_string()]))?;
        let outcomes = outcomes.as_array().ok_or("the lab's flows are no list")?;
        for outcome in outcomes.iter().filter(|outcome| outcome["works"] != true) {
            println!("no: {outcome}");
        }
        let works = outcomes.iter().filter(|outcome| outcome["works"] == true).count();
        Ok(Flows { tried: outcomes.len(), works, seconds: begin.elapsed().as_secs_f64() })
    }

    /// Ends it, and says how many seconds that took.
    pub(crate) fn down(self) -> Result<f64, String> {
        let begin = Instant::now();
        rig::process::run(&mut lab(&self.transom, &["down"])).map(|_| begin.elapsed().as_secs_f64())
    }
}

fn directory() -> PathBuf {
    Path::new(DIRECTORY).join("labs")
}

fn lab(transom: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(transom);
    command.arg("lab").args(words).args(["--name", NAME]).env("TRANSOM_LAB_DIR", directory());
    command
}

fn ask(mut command: Command) -> Result<Value, String> {
    let text = rig::process::run(&mut command)?;
    serde_json::from_str(&text).map_err(|error| format!("what the lab says is no JSON: {error}"))
}

/// A step that has ended: its name, its seconds, and what came of it.
fn step(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.split_at_checked(16)?;
    let (seconds, _) = rest.split_once(" s")?;
    Some((name.trim().to_owned(), seconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let read = |line| step(line).map(|(name, seconds)| format!("{name} {seconds}"));
        assert_eq!(read("Kubernetes API     0.03 s  https://127.0.0.1:36419").as_deref(), Some("Kubernetes API 0.03"));
        assert_eq!(read("kubelets           0.01 s").as_deref(), Some("kubelets 0.01"));
        assert_eq!(read("pods                        37 of 51 ready"), None);
        assert_eq!(read("The lab \"s\" is up. Try:"), None);
    }
}
