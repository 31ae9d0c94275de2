//! Words that have no place here.
//!
//! The repository is read on other machines and in other years: a path of somebody's machine, the host of somebody's
//! package mirror or the story of how a line came about mean nothing there. The words are put together from halves, so
//! that this file has none of them.

use super::Finding;
use super::repository::{File, Repository};

const RULE: &str = "words";

/// A word and what to do about it.
const WORDS: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/tmp/", "h1"), "a path of one machine"),
    (concat!("/tmp/", "h2"), "a path of one machine"),
    (concat!("/tmp/", "h3"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("C:\\Us", "ers\\"), "a path of one machine"),
    (concat!("crates", ".io"), "a package is named by its name and version in Cargo.toml, not by where it is fetched from"),
    (concat!("proxy.", "golang.org"), "a module is named by its path and version in go.mod, not by where it is fetched from"),
    (concat!("sum.", "golang.org"), "a module is named by its path and version in go.mod, not by where it is fetched from"),
    (concat!("artifac", "tory"), "name the package, not the mirror"),
    (concat!("language", " model"), "say what the code does, not how it was written"),
    (concat!("co", "pilot"), "say what the code does, not how it was written"),
    (concat!("as ", "requested"), "say what the code does, not how it was written"),
    (concat!("this ", "session"), "say what the code does, not how it was written"),
    (concat!("the ", "prompt"), "say what the code does, not how it was written"),
];

/// Objects to every one of them.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in file.lines() {
        let lower = text.to_lowercase();
        let found = WORDS.iter().filter(|(word, _)| lower.contains(&word.to_lowercase()));
        findings.extend(found.map(|(word, why)| Finding::new(RULE, &file.path, line, format!("{word:?}: {why}"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        let text = format!("fine\nsee https://{}/x\n", WORDS[7].0.to_uppercase());
        let found = check(&Repository::with(&[("README.md", &text)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }
}
