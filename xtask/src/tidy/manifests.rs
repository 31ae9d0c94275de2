//! Every crate obeys the lints of the workspace.
//!
//! Cargo does not mind a crate without them, and such a crate then goes unlinted for good.

use super::Finding;
use super::repository::{Repository, numbered};

/// Objects to every package without `[lints] workspace = true`.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let packages = repository.ending(&["Cargo.toml"]).filter(|file| section(&file.text, "[package]").is_some());
    let without = packages.filter(|file| {
        let lints = section(&file.text, "[lints]");
        !lints.is_some_and(|lines| lines.iter().any(|line| line.replace(' ', "") == "workspace=true"))
    });
    without.map(|file| Finding::new("lints", &file.path, 1, "add `[lints]` with `workspace = true`")).collect()
}

/// The lines of a section of a manifest.
fn section<'a>(text: &'a str, header: &str) -> Option<Vec<&'a str>> {
    let (start, _) = numbered(text).find(|(_, line)| line.trim() == header)?;
    Some(text.lines().skip(start).take_while(|line| !line.trim_start().starts_with('[')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_without_lints_are_found() {
        let repository = Repository::with(&[
            ("Cargo.toml", "[workspace]\nmembers = []\n"),
            ("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"),
            ("b/Cargo.toml", "[package]\nname = \"b\"\n\n[lints]\n\n[dependencies]\nworkspace = true\n"),
            ("c/Cargo.toml", "[package]\nname = \"c\"\n"),
        ]);
        let found: Vec<String> = check(&repository).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["b/Cargo.toml", "c/Cargo.toml"]);
    }
}
