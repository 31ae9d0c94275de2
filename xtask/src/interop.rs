//! `cargo xtask interop PEER`: other people's Windows programs, and our own, under Wine against our hnsd; and a container
//! runtime of this system on our networks; and Kubernetes' own API server beside ours.
//!
//! Everything a run under Wine needs is made in `target/interop`: a Wine prefix with our DLLs in it, the state of an hnsd that lives as
//! long as the run, and the logs of both. Nothing waits for ever: every step has a limit.

mod cni;
mod hnsd;
pub(crate) mod kubernetes;
mod lab;
mod limited;
mod runtime;
mod service;
mod windows_agents;
pub(crate) mod wine;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::hnsd::Hnsd;
use self::wine::Prefix;
use crate::{dist, shell};

/// Listing tests and small commands.
const SHORT: Duration = Duration::from_secs(120);
/// All tests of a peer together.
const LONG: Duration = Duration::from_secs(900);

/// Runs one peer: `hcsshim`, `wine`, `cni`, `runtime`, `kubernetes`, of the last the `agents` or the labs (`joined`) alone, `windows-agents`, or
/// of the last the `lab` alone.
pub(crate) fn run(peer: &str) -> Result<(), String> {
    match peer {
        "hcsshim" => hcsshim(),
        "wine" => transom_exe(),
        "cni" => cni::run(),
        "runtime" => runtime::run(),
        "kubernetes" => kubernetes::run(),
        "agents" => kubernetes::agents(),
        "joined" => kubernetes::labs(),
        "windows-agents" => windows_agents::run(),
        "lab" => lab::run(),
        other => Err(format!(
            "there is no peer {other:?}; there are hcsshim, wine, cni, runtime, kubernetes, agents, joined, windows-agents and lab"
        )),
    }
}

/// What every run needs: our programs, and a prefix with our DLLs.
struct Ground {
    directory: PathBuf,
    prefix: Prefix,
    /// The program of this system.
    program: PathBuf,
}

impl Ground {
    fn prepare() -> Result<Self, String> {
        step("build the Windows files");
        dist::build()?;
        Self::prepare_wine()
    }

    /// Without programs of ours for Windows: for those of others the DLLs will do.
    fn prepare_for_others() -> Result<Self, String> {
        step("build the DLLs");
        dist::build_dlls()?;
        Self::prepare_wine()
    }

    fn prepare_wine() -> Result<Self, String> {
        step("build hnsd");
        shell::run(shell::cargo().args(["build", "--workspace", "--bin", "transom"]))?;
        let ground = Self::prepared()?;
        make_directory(&ground.directory)?;
        step("prepare Wine");
        Prefix::prepare(&ground.directory)?;
        Ok(ground)
    }

    /// What somebody has prepared.
    fn prepared() -> Result<Self, String> {
        let target = dist::target_directory()?;
        let directory = target.join("interop");
        let prefix = Prefix::prepared(&directory);
        Ok(Self { directory, prefix, program: target.join("debug").join("transom") })
    }
}

/// A prefix with our DLLs and an hnsd that they find.
struct Scene {
    directory: PathBuf,
    prefix: Prefix,
    hnsd: Hnsd,
}

impl Scene {
    fn set() -> Result<Self, String> {
        let Ground { directory, prefix, program } = Ground::prepare()?;
        step("start hnsd");
        let hnsd = Hnsd::start(&program, &directory)?;
        prefix.point_at(&hnsd)?;
        Ok(Self { directory, prefix, hnsd })
    }
}

/// Microsoft's own tests of its HCN library, unmodified.
fn hcsshim() -> Result<(), String> {
    if !dist::can_start("wine") || shell::output(shell::program("go").arg("version")).is_err() {
        return Err("wine and go are needed; install them, for example with `apt install wine64 golang-go`".to_owned());
    }
    let scene = Scene::set()?;
    step("build the tests of hcsshim");
    let tests = scene.directory.join("hcn.test.exe");
    build_tests(&tests)?;
    let mut log = Log::create(&scene.directory.join("hcsshim.log"))?;
    let listed = list_tests(&scene.prefix, &tests)?;
    step(&format!("run {} tests", listed.len()));
    let results = run_tests(&scene.prefix, &tests, &listed, &mut log)?;
    summarize(&listed, &results, &log.path)
}

/// Our own tests and our own program, through the interface it uses on Windows.
fn transom_exe() -> Result<(), String> {
    if !dist::can_start("wine") {
        return Err("wine is needed; install it, for example with `apt install wine64`".to_owned());
    }
    let scene = Scene::set()?;
    step("run the tests of the DLLs as Windows programs");
    scene.prefix.cargo_test(&["abi", "computenetwork", "vmcompute", "host"], LONG)?;
    let exe = dist::directory().join("transom.exe");
    let network = scene.directory.join("network.json");
    let document = r#"{"Name":"interop","Type":"NAT","SchemaVersion":{"Major":2,"Minor":0}}"#;
    fs::write(&network, document).map_err(|error| format!("cannot write {}: {error}", network.display()))?;
    let windows_path = wine::windows_path(&network);
    let commands: [&[&str]; 3] = [&["version"], &["network", "create", "-f", &windows_path], &["network", "list"]];
    for arguments in commands {
        step(&format!("wine transom.exe {}", arguments.join(" ")));
        print!("{}", scene.prefix.output(&exe, arguments, SHORT)?);
    }
    let list = ["network", "list", "-o", "json"];
    let through_wine = scene.prefix.output(&exe, &list, SHORT)?;
    let directly = scene.hnsd.transom(&list)?;
    if !directly.contains("interop") || through_wine.replace("\r\n", "\n") != directly {
        return Err(format!("transom.exe sees other networks than transom:\n{through_wine}\n{directly}"));
    }
    println!("transom.exe and transom see the same networks");
    Ok(())
}

fn build_tests(into: &Path) -> Result<(), String> {
    let mut go = shell::program("go");
    go.current_dir(shell::root().join("interop")).envs([("GOOS", "windows"), ("GOARCH", "amd64"), ("CGO_ENABLED", "0")]);
    go.args(["test", "-c", "-tags", "integration", "-o"]).arg(into).arg("github.com/Microsoft/hcsshim/hcn");
    shell::run(&mut go)
}

fn list_tests(prefix: &Prefix, tests: &Path) -> Result<Vec<String>, String> {
    let listed = prefix.output(tests, &["-test.list", ".*"], SHORT)?;
    let listed: Vec<String> = listed.lines().map(str::trim).filter(|line| line.starts_with("Test")).map(str::to_owned).collect();
    if listed.is_empty() { Err("the tests of hcsshim list no test".to_owned()) } else { Ok(listed) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Runs all tests. One that takes the whole program down counts as failed, and those after it are run without it.
fn run_tests(prefix: &Prefix, tests: &Path, listed: &[String], log: &mut Log) -> Result<BTreeMap<String, Outcome>, String> {
    let mut results = BTreeMap::new();
    loop {
        let left: Vec<&str> = listed.iter().filter(|test| !results.contains_key(*test)).map(String::as_str).collect();
        if left.is_empty() {
            return Ok(results);
        }
        let only = format!("^({})$", left.join("|"));
        let mut running = None;
        let arguments = ["-test.v", "-test.timeout", "600s", "-test.run", &only];
        let ended = prefix.run(tests, &arguments, LONG, |line| {
            log.add(line);
            if let Some(test) = line.strip_prefix("=== RUN   ") {
                running = Some(test.trim().to_owned());
            }
            if let Some((test, outcome, seconds)) = result(line) {
                println!("{outcome:?} {test} {seconds}");
                results.insert(test.to_owned(), outcome);
            }
        });
        if let Err(error) = ended {
            log.add(&error);
        }
        // Whatever the reason that there is no result for the test that ran last, without one we would run it for ever.
        let stuck = running.map(|test| test.split('/').next().unwrap_or_default().to_owned()).unwrap_or_else(|| left[0].to_owned());
        if listed.contains(&stuck) && !results.contains_key(&stuck) {
            println!("{:?} {stuck} (did not end)", Outcome::Failed);
            results.insert(stuck, Outcome::Failed);
        }
    }
}

/// Test, outcome and time in a line such as `--- PASS: TestNetwork (0.01s)`.
fn result(line: &str) -> Option<(&str, Outcome, &str)> {
    let (word, rest) = line.strip_prefix("--- ")?.split_once(": ")?;
    let outcome = match word {
        "PASS" => Outcome::Passed,
        "FAIL" => Outcome::Failed,
        "SKIP" => Outcome::Skipped,
        _ => return None,
    };
    let (test, seconds) = rest.trim_end().split_once(' ')?;
    Some((test, outcome, seconds))
}

fn summarize(listed: &[String], results: &BTreeMap<String, Outcome>, log: &Path) -> Result<(), String> {
    let count = |outcome| results.values().filter(|result| **result == outcome).count();
    let [passed, failed, skipped] = [Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(count);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    match passed == listed.len() {
        true => Ok(()),
        false => Err(format!("{} of {} tests did not pass; see {}", listed.len() - passed, listed.len(), log.display())),
    }
}

/// Everything a peer prints.
struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn add(&mut self, line: &str) {
        // A log that cannot be written must not stop what it is a log of.
        let _ = writeln!(self.file, "{line}");
    }
}

fn step(what: &str) {
    println!("== {what}");
}

fn make_directory(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_what_go_prints() {
        assert_eq!(result("--- PASS: TestNetwork (0.01s)"), Some(("TestNetwork", Outcome::Passed, "(0.01s)")));
        assert_eq!(result("--- SKIP: TestNetwork (0.00s)\r"), Some(("TestNetwork", Outcome::Skipped, "(0.00s)")));
        assert_eq!(result("    --- FAIL: TestNetwork/sub (0.01s)"), None);
        assert_eq!(result("ok"), None);
    }
}
