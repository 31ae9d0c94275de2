//! Unsafe code stands at the edges, and argues for itself.

use super::Finding;
use super::repository::{File, Repository};
use super::source::{self, Source, line_of, words};

const RULE: &str = "unsafe";

/// Where the operating system and Windows programs hand us raw memory.
const EDGES: &[&str] = &["crates/host/", "dlls/"];

/// How far above a block its argument may end: an attribute or the start of a statement may stand between.
const REACH: usize = 3;

/// Objects to unsafe code away from the edges, and to blocks without a `SAFETY:` comment.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.ending(&[".rs"]).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let source = source::read(&file.text);
    let at_the_edge = EDGES.iter().any(|edge| file.path.starts_with(edge));
    let object = |at: usize| {
        let line = line_of(&source.code, at);
        if !at_the_edge {
            let message = format!("unsafe code belongs into {}", EDGES.join(" or "));
            return Some(Finding::new(RULE, &file.path, line, message));
        }
        let argued = !needs_argument(&source.code[at..]) || has_argument(&source, line);
        (!argued).then(|| Finding::new(RULE, &file.path, line, "say above the block why it is sound, in a comment with SAFETY:"))
    };
    words(&source.code, "unsafe").filter_map(object).collect()
}

/// Blocks and implementations need an argument; a declaration (`unsafe fn`, an attribute) asks one of its callers.
fn needs_argument(code: &str) -> bool {
    let next = code["unsafe".len()..].trim_start();
    next.starts_with('{') || next.starts_with("impl")
}

/// Whether the comment on the line itself, or one that ends at most [`REACH`] lines above, has the word.
fn has_argument(source: &Source, line: usize) -> bool {
    let comments: Vec<&str> = source.comments.lines().collect();
    let is_comment = |index: usize| !comments[index].trim().is_empty();
    let own = line - 1;
    let first = own.saturating_sub(REACH);
    let Some(mut at) = (first..=own).rev().find(|index| is_comment(*index)) else {
        return false;
    };
    loop {
        if comments[at].contains("SAFETY:") {
            return true;
        }
        if at == 0 || (at <= first && !is_comment(at - 1)) {
            return false;
        }
        at -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Repository::with(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn only_at_the_edges() {
        let text = "// SAFETY: fine\nunsafe { f() }\n";
        assert_eq!(lines("crates/hns/src/a.rs", text), [2]);
        assert_eq!(lines("crates/host/src/a.rs", text), NONE);
        assert_eq!(lines("crates/hns/src/a.rs", "// unsafe\nlet unsafe_code = \"unsafe\";\n"), NONE);
    }

    #[test]
    fn blocks_argue() {
        assert_eq!(lines("dlls/a.rs", "fn f() {\n    unsafe { g() }\n}\n"), [2]);
        assert_eq!(lines("dlls/a.rs", "// SAFETY: because\n// of this\n// and that\n// and more\nlet x =\n    unsafe { g() };\n"), NONE);
        assert_eq!(lines("dlls/a.rs", "// SAFETY: far\nx();\ny();\nz();\nunsafe { g() }\n"), [5]);
        assert_eq!(lines("dlls/a.rs", "#[unsafe(no_mangle)]\npub unsafe extern \"system\" fn f() {}\n"), NONE);
        assert_eq!(lines("dlls/a.rs", "unsafe impl Send for T {}\n"), [1]);
    }
}
