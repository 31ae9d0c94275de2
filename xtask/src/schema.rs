//! `cargo xtask schema`: the tables of Kubernetes' types that our API server has, read anew from these types.
//!
//! A Go program (`interop/kubernetes/schema`) looks at the types as they are compiled, of the modules that `interop/kubernetes/go.mod`
//! requires. So the tables follow the release that our server is compared with.

use std::fs;
use std::path::PathBuf;

use crate::shell;

/// The tables, as the program and as our files call them.
const TABLES: [&str; 2] = ["fields", "originals"];

/// Writes the tables, or only compares them.
pub(crate) fn run(check: bool) -> Result<(), String> {
    for table in TABLES {
        let read = read(table)?;
        let file = file(table);
        let kept = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        match difference(&kept, &read) {
            None => println!("{table}.txt is what the types say"),
            Some(place) if check => {
                return Err(format!("{} is not what Kubernetes' types say, {place}; run `cargo xtask schema`", file.display()));
            }
            Some(_) => {
                fs::write(&file, &read).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                println!("{table}.txt is written anew");
            }
        }
    }
    Ok(())
}

/// A table as the types have it now.
fn read(table: &str) -> Result<String, String> {
    let mut go = shell::program("go");
    go.current_dir(shell::root().join("interop").join("kubernetes")).env("CGO_ENABLED", "0").args(["run", "./schema", table]);
    shell::output(&mut go)
}

fn file(table: &str) -> PathBuf {
    shell::root().join("crates/cluster/src/server/schema").join(format!("{table}.txt"))
}

/// Where two tables part.
fn difference(kept: &str, read: &str) -> Option<String> {
    if kept == read {
        return None;
    }
    let (mut kept, mut read) = (kept.lines(), read.lines());
    for line in 1.. {
        match (kept.next(), read.next()) {
            (None, None) => return Some("in how its lines end".to_owned()),
            (kept, read) if kept == read => {}
            (kept, read) => return Some(format!("from line {line} on: {:?} should be {:?}", kept.unwrap_or(""), read.unwrap_or(""))),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "a\nc\n").as_deref(), Some(r#"from line 2 on: "b" should be "c""#));
        assert_eq!(difference("a\n", "a\nb\n").as_deref(), Some(r#"from line 2 on: "" should be "b""#));
        assert_eq!(difference("a", "a\n").as_deref(), Some("in how its lines end"));
    }
}
