//! Files that nobody compiles.
//!
//! A source that no `mod` reaches rots without a sound, and a reader cannot tell it from the living.

use std::collections::BTreeSet;

use serde_json::Value;

use super::documents::normalize;
use super::repository::{File, Repository};
use super::source::{self, closing_brace, is_name, words};
use super::{Finding, relative};

/// Objects to every Rust file that no target of a package leads to.
pub(super) fn check(repository: &Repository, metadata: &Value) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for root in target_roots(metadata).into_iter().chain(named_roots(repository)) {
        follow(repository, &root, directory(&root), &mut reached);
    }
    let dead = repository.ending(&[".rs"]).filter(|file| !reached.contains(&file.path));
    dead.map(|file| Finding::new("dead-file", &file.path, 1, "no `mod` and no manifest leads here; delete the file or declare it"))
        .collect()
}

/// The root sources of all our libraries, programs, tests and build scripts.
fn target_roots(metadata: &Value) -> Vec<String> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    targets.filter_map(|target| target["src_path"].as_str()).map(|path| relative(path, root)).collect()
}

/// The sources that manifests name by their path, which includes those of packages outside the workspace.
fn named_roots(repository: &Repository) -> Vec<String> {
    let manifests = repository.ending(&["Cargo.toml"]);
    let named = manifests.flat_map(|manifest| {
        let lines = manifest.text.lines().filter(|line| line.starts_with("path"));
        let paths = lines.filter_map(|line| line.split('"').nth(1)).filter(|path| path.ends_with(".rs"));
        paths.map(|path| join(&directory(&manifest.path), path)).collect::<Vec<_>>()
    });
    named.collect()
}

/// Walks from a source to the modules it declares, which stand in `home`.
fn follow(repository: &Repository, path: &str, home: String, reached: &mut BTreeSet<String>) {
    let Some(file) = repository.file(path) else {
        return;
    };
    if !reached.insert(file.path.clone()) {
        return;
    }
    for module in modules(file) {
        let place = join(&home, &module.inside);
        let candidates = match &module.path {
            Some(path) => vec![normalize(&file.path, path)],
            None => vec![join(&place, &format!("{}.rs", module.name)), join(&place, &format!("{}/mod.rs", module.name))],
        };
        for candidate in candidates {
            let home = match module.path.is_some() || candidate.ends_with("/mod.rs") {
                true => directory(&candidate),
                false => join(&place, &module.name),
            };
            follow(repository, &candidate, home, reached);
        }
    }
}

/// `mod name;` in a source: the inline modules around it, its name, and its path if an attribute gives one.
#[derive(Debug, PartialEq)]
struct Module {
    inside: String,
    name: String,
    path: Option<String>,
}

fn modules(file: &File) -> Vec<Module> {
    let code = source::read(&file.text).code;
    let mut found = Vec::new();
    // Inline modules that are open, with where they close.
    let mut open: Vec<(String, usize)> = Vec::new();
    for at in words(&code, "mod") {
        open.retain(|(_, end)| *end > at);
        let rest = code[at + 3..].trim_start();
        let name: String = rest.chars().take_while(|character| is_name(*character)).collect();
        let start = code.len() - rest.len() + name.len();
        match code[start..].trim_start().chars().next() {
            Some('{') => {
                let brace = code.len() - code[start..].trim_start().len();
                open.push((name, closing_brace(&code, brace).unwrap_or(code.len())));
            }
            Some(';') => {
                let inside = open.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("/");
                found.push(Module { inside, name, path: path_attribute(&file.text, &code, at) });
            }
            _ => {}
        }
    }
    found
}

/// The value of `#[path = "…"]` before a `mod`, on the lines between the previous item and it.
fn path_attribute(text: &str, code: &str, at: usize) -> Option<String> {
    let item = code[..at].rfind([';', '}']).map_or(0, |end| end + 1);
    // Code and text have the same lines, but not the same bytes.
    let first = source::line_of(code, item);
    let last = source::line_of(code, at);
    let lines = text.lines().skip(first - 1).take(last - first + 1);
    let attribute = lines.filter_map(|line| line.trim().strip_prefix("#[path")).last()?;
    attribute.split('"').nth(1).map(str::to_owned)
}

fn directory(path: &str) -> String {
    path.rsplit_once('/').map_or_else(String::new, |(directory, _)| directory.to_owned())
}

fn join(directory: &str, path: &str) -> String {
    match (directory, path) {
        ("", path) | (path, "") => path.to_owned(),
        (directory, path) => format!("{directory}/{path}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_unreached_files_are_dead() {
        let repository = Repository::with(&[
            ("a/src/lib.rs", "mod b;\npub(crate) mod c;\n#[cfg(test)]\n#[path = \"odd/place.rs\"]\nmod d;\nmod i { mod j; }\n// mod e;\n"),
            ("a/src/b.rs", "mod deep;"),
            ("a/src/b/deep.rs", ""),
            ("a/src/c/mod.rs", "mod next;"),
            ("a/src/c/next.rs", ""),
            ("a/src/odd/place.rs", ""),
            ("a/src/i/j.rs", ""),
            ("a/src/e.rs", ""),
            ("a/tests/t/main.rs", "mod m;\n#[path = \"../shared/s.rs\"]\nmod s;\n"),
            ("a/tests/t/m.rs", ""),
            ("a/tests/shared/s.rs", ""),
            ("f/Cargo.toml", "[[bin]]\nname = \"t\"\npath = \"targets/t.rs\"\n[dependencies]\na = { path = \"../a\" }\n"),
            ("f/targets/t.rs", ""),
        ]);
        let targets = json!([{"src_path": "/r/a/src/lib.rs"}, {"src_path": "/r/a/tests/t/main.rs"}]);
        let metadata = json!({"workspace_root": "/r", "packages": [{"targets": targets}]});
        let dead: Vec<String> = check(&repository, &metadata).into_iter().map(|finding| finding.path).collect();
        assert_eq!(dead, ["a/src/e.rs"]);
    }
}
