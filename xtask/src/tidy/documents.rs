//! What we write about the code leads where it says.

use super::Finding;
use super::repository::{File, Repository, numbered};
use super::source;

/// The sections of a decision.
const SECTIONS: &[&str] = &["## Context", "## Choice", "## What we gave up"];

const DECISIONS: &str = "docs/decisions/";

/// Objects to links that lead nowhere and to decisions that are incomplete or not listed.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<Finding> = repository.ending(&[".md"]).flat_map(|file| links(repository, file)).collect();
    findings.extend(repository.ending(&[".rs"]).flat_map(|file| mentions(repository, file)));
    let index = repository.file(&format!("{DECISIONS}README.md")).map_or("", |file| &file.text);
    let decisions = repository.ending(&[".md"]).filter(|file| file.path.starts_with(DECISIONS) && !file.path.ends_with("/README.md"));
    findings.extend(decisions.flat_map(|file| decision(file, index)));
    findings
}

fn decision(file: &File, index: &str) -> Vec<Finding> {
    const RULE: &str = "decision";
    let mut findings = Vec::new();
    let name = file.path.trim_start_matches(DECISIONS);
    if !index.contains(&format!("]({name})")) {
        findings.push(Finding::new(RULE, &file.path, 1, format!("list it in {DECISIONS}README.md")));
    }
    let numbered = name.len() > 5 && name.as_bytes()[..4].iter().all(u8::is_ascii_digit) && name.as_bytes()[4] == b'-';
    if !numbered {
        findings.push(Finding::new(RULE, &file.path, 1, "name it NNNN-the-choice.md"));
    }
    let missing = SECTIONS.iter().filter(|section| !file.text.lines().any(|line| line == **section));
    findings.extend(missing.map(|section| Finding::new(RULE, &file.path, 1, format!("the section {section:?} is missing"))));
    findings
}

/// Links from a page to our own files, and to headings in them.
fn links(repository: &Repository, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in prose(file) {
        for target in targets(text) {
            if let Err(message) = resolve(repository, file, target) {
                findings.push(Finding::new("link", &file.path, line, message));
            }
        }
    }
    findings
}

/// Pages that the comments of a source name by their path from the root.
fn mentions(repository: &Repository, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, comment) in numbered(&source::read(&file.text).comments) {
        let words = comment.split(|character: char| character.is_whitespace() || "`()\"',;".contains(character));
        let pages = words.filter(|word| word.starts_with("docs/") && word.ends_with(".md"));
        let missing = pages.filter(|page| repository.file(page).is_none());
        findings.extend(missing.map(|page| Finding::new("link", &file.path, line, format!("there is no {page}"))));
    }
    findings
}

/// The lines of a page outside of its code blocks.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// What stands in the parentheses of the links on a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn resolve(repository: &Repository, file: &File, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { file.path.clone() } else { normalize(&file.path, path) };
    let inside = format!("{path}/");
    let Some(page) = repository.file(&path) else {
        // A directory is a fine thing to point at, and so is a file that tidy itself does not read.
        let exists = repository.files.iter().any(|file| file.path.starts_with(&inside)) || path == "LICENSE";
        return if exists { Ok(()) } else { Err(format!("the link to {target} leads to no file")) };
    };
    let headings = || prose(page).filter_map(|(_, line)| line.strip_prefix('#')).map(anchor);
    if heading.is_empty() || !path.ends_with(".md") || headings().any(|anchor| anchor == heading) {
        return Ok(());
    }
    Err(format!("{path} has no heading for #{heading}"))
}

/// A heading as it stands in links: lower case, `-` for blanks, no punctuation.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}

/// A path as seen from a file, from the root.
pub(super) fn normalize(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::with(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_resolve() {
        let guide = ("docs/guide.md", "# A `guide` to it\n");
        let good = "[a](docs/guide.md) [b](docs) [c](https://example.com/x) [d](docs/guide.md#a-guide-to-it)\n```\n[e](nowhere)\n```\n";
        assert_eq!(found(&[guide, ("README.md", good)]), Vec::<String>::new());
        let bad = found(&[guide, ("docs/a/b.md", "[a](../guide.md) [b](guide.md)\n[c](../guide.md#chapter)\n")]);
        assert_eq!(bad[0], "docs/a/b.md:1: link: the link to guide.md leads to no file");
        assert_eq!(bad[1], "docs/a/b.md:2: link: docs/guide.md has no heading for #chapter");
    }

    #[test]
    fn pages_named_in_comments_are_there() {
        let guide = ("docs/guide.md", "# Guide\n");
        let text = "//! `docs/guide.md` says why.\n// See docs/gone.md\nconst PATH: &str = \"docs/other.md\";\n";
        assert_eq!(found(&[guide, ("a.rs", text)]), ["a.rs:2: link: there is no docs/gone.md"]);
    }

    #[test]
    fn decisions_are_complete_and_listed() {
        let whole = "# We do\n\n## Context\n\n## Choice\n\n## What we gave up\n";
        let index = ("docs/decisions/README.md", "| 1 | [We do](0001-we-do.md) |\n");
        assert_eq!(found(&[index, ("docs/decisions/0001-we-do.md", whole)]), Vec::<String>::new());
        let bad = found(&[("docs/decisions/README.md", ""), ("docs/decisions/we-do.md", "## Context\n## Choice\n")]);
        assert_eq!(bad.len(), 3, "{bad:?}");
    }
}
