//! `cargo xtask dist`: what runs on Windows, built here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::shell;

/// The Windows we build for.
pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";
const MINGW: &str = "x86_64-w64-mingw32";

/// The files of a distribution.
const FILES: [&str; 4] = ["transom.exe", "computenetwork.dll", "vmcompute.dll", RANDOM_DLL];

/// The DLL that the standard library takes its random numbers from, and which therefore must not contain it.
const RANDOM_DLL: &str = "bcryptprimitives.dll";

/// Builds the Windows files into `dist/windows` and lists them.
pub(crate) fn run() -> Result<(), String> {
    build()?;
    print_table()
}

/// Builds the Windows files into `dist/windows`. Costs little if they are up to date.
pub(crate) fn build() -> Result<(), String> {
    build_some(&["transom", "computenetwork", "vmcompute"], &FILES)
}

/// Builds the DLLs among them alone, for programs of others.
pub(crate) fn build_dlls() -> Result<(), String> {
    build_some(&["computenetwork", "vmcompute"], &dlls().collect::<Vec<_>>())
}

fn build_some(packages: &[&str], files: &[&str]) -> Result<(), String> {
    check_tools()?;
    let build = ["build", "--release", "--target", TARGET];
    shell::run(shell::cargo().args(build).args(packages.iter().flat_map(|package| ["-p", package])))?;
    // Without the standard library there is nobody to unwind a panic, and cargo knows no such setting for a single package.
    shell::run(shell::cargo().args(build).args(["-p", "bcryptprimitives", "--config", "profile.release.panic='abort'"]))?;
    let built = target_directory()?.join(TARGET).join("release");
    let into = directory();
    fs::create_dir_all(&into).map_err(|error| format!("cannot make {}: {error}", into.display()))?;
    for file in files {
        let (from, to) = (built.join(file), into.join(file));
        fs::copy(&from, &to).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
    }
    check_random_dll(&into.join(RANDOM_DLL))
}

/// Where the Windows files are.
pub(crate) fn directory() -> PathBuf {
    shell::root().join("dist").join("windows")
}

/// The DLLs among them.
pub(crate) fn dlls() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().filter(|file| file.ends_with(".dll"))
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf, String> {
    let metadata = shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cannot read what cargo metadata prints: {error}"))?;
    metadata["target_directory"].as_str().map(PathBuf::from).ok_or_else(|| "cargo metadata names no target directory".to_owned())
}

fn check_tools() -> Result<(), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = shell::output(shell::program(rustc).args(["--print", "target-libdir", "--target", TARGET]))?;
    if !Path::new(library.trim()).is_dir() {
        return Err(format!("Rust's library for Windows is missing; install it with `rustup target add {TARGET}`"));
    }
    for tool in ["gcc", "dlltool", "objdump"] {
        let tool = format!("{MINGW}-{tool}");
        if !can_start(&tool) {
            return Err(format!("{tool} is missing; install mingw-w64, for example with `apt install gcc-mingw-w64-x86-64`"));
        }
    }
    Ok(())
}

/// Whether a program is there and answers for its version.
pub(crate) fn can_start(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A DLL that imports from itself could not be loaded, and with it no program at all.
fn check_random_dll(file: &Path) -> Result<(), String> {
    let headers = shell::output(shell::program(format!("{MINGW}-objdump")).arg("-p").arg(file))?;
    let imports = headers.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: "));
    match imports.into_iter().any(|name| name.eq_ignore_ascii_case(RANDOM_DLL)) {
        true => Err(format!("{RANDOM_DLL} imports from itself: it was built with the standard library in it")),
        false => Ok(()),
    }
}

fn print_table() -> Result<(), String> {
    println!("{:<24} {:>10}", "file in dist/windows", "bytes");
    for file in FILES {
        let path = directory().join(file);
        let size = fs::metadata(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?.len();
        println!("{file:<24} {size:>10}");
    }
    Ok(())
}
