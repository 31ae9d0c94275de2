//! Files and functions that have grown past what a reader can hold.
//!
//! A length is a smell and no crime, so most of it is only reported; a function over [`FUNCTION_LIMIT`] lines is certainly
//! two ideas that have not been introduced to each other yet.

use super::Finding;
use super::repository::{File, Repository};
use super::source::{self, closing_brace, is_name, line_of, words};

const RULE: &str = "size";
const FILE_NOTE: usize = 1000;
const FUNCTION_NOTE: usize = 100;
const FUNCTION_LIMIT: usize = 150;

/// Reports long files and functions, and objects to very long functions.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.ending(&[".rs"]).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_NOTE {
        findings.push(Finding::note(RULE, &file.path, 1, format!("{lines} lines; over {FILE_NOTE}, look for the second idea in it")));
    }
    for function in functions(&source::read(&file.text).code) {
        let message = format!("the function {} has {} lines", function.name, function.lines);
        match function.lines {
            lines if lines > FUNCTION_LIMIT => {
                findings.push(Finding::new(RULE, &file.path, function.line, format!("{message}; {FUNCTION_LIMIT} is the limit")));
            }
            lines if lines > FUNCTION_NOTE => findings.push(Finding::note(RULE, &file.path, function.line, message)),
            _ => {}
        }
    }
    findings
}

#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions with bodies in a piece of code.
fn functions(code: &str) -> Vec<Function> {
    words(code, "fn").filter_map(|at| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let name: String = code[at + 2..].trim_start().chars().take_while(|character| is_name(*character)).collect();
    // A function type has no name, and a function of a trait may have no body.
    let open = at + code[at..].find(['{', ';']).filter(|_| !name.is_empty())?;
    let close = closing_brace(code, open).filter(|_| code[open..].starts_with('{'))?;
    let line = line_of(code, at);
    Some(Function { name, line, lines: line_of(code, close) - line + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured() {
        let code = "trait T { fn none(&self); }\nfn one() {}\nfn three(f: fn(u8)) {\n    { }\n}\n";
        let measured: Vec<(String, usize)> = functions(code).into_iter().map(|function| (function.name, function.lines)).collect();
        assert_eq!(measured, [("one".to_owned(), 1), ("three".to_owned(), 3)]);
    }

    #[test]
    fn long_is_a_note_and_very_long_an_objection() {
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines));
        let of = |text: String| check(&Repository::with(&[("a.rs", &text)]));
        assert_eq!(of(body(90)), []);
        assert_eq!(of(body(110)), [Finding::note(RULE, "a.rs", 1, "the function f has 112 lines")]);
        assert_eq!(of(body(160)), [Finding::new(RULE, "a.rs", 1, "the function f has 162 lines; 150 is the limit")]);
        let file = of("\n".repeat(1001));
        assert_eq!(file.len(), 1);
    }
}
