//! `cargo xtask test`: what a new machine needs, then every test, then a summary.

use std::time::{Duration, Instant};

use crate::shell;

/// Sets up and runs all tests.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    set_up()?;
    let start = Instant::now();
    let mut summary = Summary::default();
    let mut command = shell::cargo();
    // One failing suite must not hide what the others have to say.
    command.args(["test", "--workspace", "--no-fail-fast"]).args(arguments);
    let success = shell::watch(&mut command, |line| summary.read(line))?;
    println!("\n{}", summary.print(start.elapsed()));
    match success {
        true => Ok(()),
        false if summary.failed.is_empty() => Err("the tests could not be built or run; see above".into()),
        false => Err(format!("{} failed", count(summary.failed.len(), "test"))),
    }
}

/// Brings a fresh machine to where `cargo test` works, and says what that took.
///
/// There is little to do: a linker is there, or this would not run; the exact Rust is in rust-toolchain.toml and rustup's to
/// install; the libraries are in Cargo.lock and cargo's to fetch. What is left is the program itself, which some tests start.
fn set_up() -> Result<(), String> {
    let version = shell::output(shell::cargo().arg("--version"))?;
    println!("set-up: {}, as rust-toolchain.toml asks; no package of the system is needed", version.trim());
    println!("set-up: fetching libraries and building transom, which some tests start");
    shell::run(shell::cargo().args(["build", "--workspace", "--bin", "transom"]))
}

/// What a run of `cargo test` came to, read from its output.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    suites: u64,
    passed: u64,
    failed: Vec<String>,
    ignored: Vec<String>,
}

impl Summary {
    /// Takes in a line of the output.
    fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.suites += 1;
            self.passed += number_before(result, " passed");
            return;
        }
        // `test tests::name ... ok`; for a documentation test the name holds blanks.
        let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) else {
            return;
        };
        if outcome.starts_with("FAILED") {
            self.failed.push(name.to_owned());
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            self.ignored.push(format!("{name}{reason}"));
        }
    }

    fn print(&self, took: Duration) -> String {
        let mut text = format!(
            "summary: {} passed, {} failed, {} ignored, in {} and {:.0} s",
            self.passed,
            self.failed.len(),
            self.ignored.len(),
            count(self.suites, "suite"),
            took.as_secs_f64()
        );
        let named = |heading: &str, names: &[String]| names.iter().map(|name| format!("\n  {heading}: {name}")).collect::<String>();
        text.push_str(&named("failed", &self.failed));
        text.push_str(&named("ignored", &self.ignored));
        text
    }
}

/// The number that stands before a word: 12 for `ok. 12 passed; 0 failed`.
fn number_before(text: &str, word: &str) -> u64 {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn count(number: impl TryInto<u64>, noun: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_a_summary() {
        let output = "
running 3 tests
test a::b ... ok
test a::slow ... ignored, takes an hour
test a::c ... FAILED
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test src/lib.rs - x (line 3) ... ok
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let mut summary = Summary::default();
        output.lines().for_each(|line| summary.read(line));
        let expected = "summary: 13 passed, 1 failed, 1 ignored, in 2 suites and 4 s\n  failed: a::c\n  ignored: a::slow, takes an hour";
        assert_eq!(summary.print(Duration::from_millis(4100)), expected);
    }
}
