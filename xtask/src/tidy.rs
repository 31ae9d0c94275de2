//! `cargo xtask tidy`: what a machine can check of our habits.
//!
//! Every rule is a function from the repository's text to findings, so that it is tested with a few lines of text. A rule
//! says why it exists where it is defined; a finding says what to do.

mod dead_files;
mod dependencies;
mod documents;
mod manifests;
mod repository;
mod sizes;
mod source;
mod stubs;
mod unsafety;
mod whitespace;
mod words;

use std::fmt;

use serde_json::Value;

use crate::shell;
use repository::Repository;

/// Something that a rule objects to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
    weight: Weight,
}

/// Whether a finding stops CI.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// It does.
    Failure,
    /// It is worth a look.
    Note,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into(), weight: Weight::Failure }
    }

    fn note(rule: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { weight: Weight::Note, ..Self::new(rule, path, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.weight == Weight::Note { "note: " } else { "" };
        write!(f, "{}:{}: {}: {note}{}", self.path, self.line, self.rule, self.message)
    }
}

/// Checks everything.
pub(crate) fn run() -> Result<(), String> {
    let repository = Repository::read(&shell::root())?;
    let mut findings = check(&repository, &metadata()?);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    let failures = findings.iter().filter(|finding| finding.weight == Weight::Failure).count();
    let notes = findings.len() - failures;
    println!("tidy: {} files, {failures} to mend, {notes} to look at", repository.files.len());
    match failures {
        0 => Ok(()),
        _ => Err(format!("tidy has {failures} objections")),
    }
}

/// Prints which of our crates uses which.
pub(crate) fn graph() -> Result<(), String> {
    print!("{}", dependencies::graph(&metadata()?));
    Ok(())
}

fn check(repository: &Repository, metadata: &Value) -> Vec<Finding> {
    let mut findings = dependencies::check(metadata);
    findings.extend(dead_files::check(repository, metadata));
    for rule in [documents::check, manifests::check, sizes::check, stubs::check, unsafety::check, whitespace::check, words::check] {
        findings.extend(rule(repository));
    }
    findings
}

/// What cargo knows of our packages, without asking the network.
fn metadata() -> Result<Value, String> {
    let text = shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata is no JSON: {error}"))
}

/// A path from the root of the repository.
fn relative(path: &str, root: &str) -> String {
    path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_prints_like_a_compilers() {
        let finding = Finding::new("stub", "crates/hcn/src/lib.rs", 7, "write it");
        assert_eq!(finding.to_string(), "crates/hcn/src/lib.rs:7: stub: write it");
        let note = Finding::note("size", "a.rs", 1, "long");
        assert_eq!(note.to_string(), "a.rs:1: size: note: long");
    }
}
