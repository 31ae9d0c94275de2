//! `cargo xtask bpf`: the programs for the kernel, built anew from their source.
//!
//! The object is kept beside its source, so that nobody who builds transom needs a compiler for it; CI sees that both belong together.

use std::fs;
use std::path::PathBuf;

use crate::shell;

/// Where source and object are.
fn directory() -> PathBuf {
    shell::root().join("crates/host/bpf")
}

const SOURCE: &str = "flows.bpf.c";
const OBJECT: &str = "flows.bpf.o";

/// Writes the object, or only compares it.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let built = shell::root().join("target").join(OBJECT);
    build(&built)?;
    let kept = directory().join(OBJECT);
    let read = |path: &PathBuf| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    match (read(&kept).unwrap_or_default() == read(&built)?, check) {
        (true, _) => println!("{OBJECT} is what {SOURCE} says"),
        (false, true) => return Err(format!("{} is not what {SOURCE} says; run `cargo xtask bpf` with {}", kept.display(), compiler()?)),
        (false, false) => {
            fs::copy(&built, &kept).map_err(|error| format!("cannot write {}: {error}", kept.display()))?;
            println!("{OBJECT} is written anew");
        }
    }
    Ok(())
}

/// Compiles the source. Of what helps debuggers only what the kernel reads is kept, and no path of this machine.
fn build(to: &PathBuf) -> Result<(), String> {
    let mut clang = shell::program("clang");
    clang.current_dir(directory()).args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-fdebug-compilation-dir=."]);
    // The headers of an architecture are where those of programs for it are.
    clang.args(["-I/usr/include/x86_64-linux-gnu", "-c", SOURCE, "-o"]).arg(to);
    shell::run(&mut clang)?;
    shell::run(shell::program("llvm-strip").arg("-g").arg(to))
}

/// The compiler by its version: another one makes another object of the same source.
fn compiler() -> Result<String, String> {
    let version = shell::output(shell::program("clang").arg("--version"))?;
    Ok(version.lines().next().unwrap_or_default().to_owned())
}
