//! Blanks that nobody sees and every difference shows.

use super::Finding;
use super::repository::{File, Repository};

const RULE: &str = "whitespace";

/// Objects to tabs, blanks at the ends of lines, and a last line that does not end.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.ending(&[".md", ".rs", ".toml"]).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in file.lines() {
        if text.contains('\t') {
            findings.push(Finding::new(RULE, &file.path, line, "a tab; indent with blanks"));
        }
        if text.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(RULE, &file.path, line, "blanks at the end of the line"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(RULE, &file.path, file.text.lines().count(), "the last line does not end"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_found() {
        let repository = Repository::with(&[("a.md", "fine\n\n\tno\nno \nno"), ("a.go", "\tgofmt wants it\n"), ("e.rs", "")]);
        let lines: Vec<usize> = check(&repository).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4, 5]);
    }
}
