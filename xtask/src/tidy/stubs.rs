//! Code that only promises to be code.

use super::Finding;
use super::repository::{File, Repository};
use super::source::{self, line_of, words};

const RULE: &str = "stub";

/// Calls that stand for something nobody wrote.
const MACROS: &[&str] = &["todo", "unimplemented"];

/// Notes to oneself. What is open belongs where it can be answered, not into a comment.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Excuses, in code and to users alike.
const EXCUSES: &[&str] = &[concat!("not implemented", " yet"), concat!("not yet", " implemented"), concat!("not there", " yet")];

/// Objects to stubs, notes to oneself, and tests that are ignored without a reason.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.ending(&[".rs"]).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let source = source::read(&file.text);
    let mut findings = macros(file, &source.code);
    for (line, comment) in super::repository::numbered(&source.comments) {
        if let Some(note) = NOTES.iter().find(|note| words(comment, note).next().is_some()) {
            findings.push(Finding::new(
                RULE,
                &file.path,
                line,
                format!("{note} in a comment: do it, or write it down where it is tracked"),
            ));
        }
    }
    for (line, text) in file.lines() {
        let lower = text.to_lowercase();
        if EXCUSES.iter().any(|excuse| lower.contains(excuse)) {
            findings.push(Finding::new(RULE, &file.path, line, "write it, or say what is not supported and why"));
        }
        if text.trim() == "#[ignore]" {
            findings.push(Finding::new(RULE, &file.path, line, "an ignored test says why: #[ignore = \"…\"]"));
        }
    }
    findings
}

fn macros(file: &File, code: &str) -> Vec<Finding> {
    let calls = MACROS.iter().flat_map(|name| words(code, name).map(move |at| (*name, at)));
    let calls = calls.filter(|(name, at)| code[at + name.len()..].starts_with('!'));
    calls.map(|(name, at)| Finding::new(RULE, &file.path, line_of(code, at), format!("{name}! stands for code that is missing"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_found() {
        let text = format!("fn a() {{ todo!() }}\n// {}: more\n#[ignore]\nconst E: &str = \"{}\";\n", NOTES[0], EXCUSES[0]);
        let lines: Vec<usize> = check(&Repository::with(&[("a.rs", &text)])).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }

    #[test]
    fn what_only_looks_like_one_is_not() {
        let text = "// todo! is a macro\nlet todo = 1;\n#[ignore = \"needs a Windows machine\"]\nf(\"unimplemented!\");\n";
        assert_eq!(check(&Repository::with(&[("a.rs", text)])), []);
    }
}
