//! `cargo xtask labs`: the examples of labs as every build of Windows, with what packets do in them beside what the documents promise.
//!
//! What is seen is kept in docs/reference/labs, one file for each example and build, so that a change of behaviour is a change of a file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// The builds that examples are run as, each with how its switches move packets, so that every example is played both ways. What is seen must not tell.
const BUILDS: [(&str, &str); 4] = [("transom", "auto"), ("ws2019", "tap"), ("ws2022", "auto"), ("ws2025", "tap")];

/// Set by whoever wants the files written anew.
const UPDATE: &str = "TRANSOM_UPDATE";

/// How often a lab goes up and down with random kills.
const ROUNDS: &str = "25";

/// Runs everything.
pub(crate) fn run() -> Result<(), String> {
    build()?;
    examples()?.iter().try_for_each(|example| play_all(example))?;
    chaos()
}

/// Runs one example as every build.
pub(crate) fn run_one(name: &str) -> Result<(), String> {
    build()?;
    let examples = examples()?;
    let found = examples.iter().find(|path| path.file_stem().is_some_and(|stem| stem == name));
    let names = || examples.iter().filter_map(|path| path.file_stem()?.to_str()).collect::<Vec<_>>().join(", ");
    play_all(found.ok_or_else(|| format!("there is no example {name:?}; there are {}", names()))?)
}

fn build() -> Result<(), String> {
    shell::run(shell::cargo().args(["build", "--workspace", "--bin", "transom"]))
}

fn examples() -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(shell::root().join("examples")).map_err(|error| format!("examples: {error}"))?;
    let is_example = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    let mut examples: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_example).collect();
    examples.sort();
    Ok(examples)
}

fn play_all(example: &Path) -> Result<(), String> {
    BUILDS.iter().try_for_each(|(build, data_path)| play(example, build, data_path))
}

/// One example as one build.
fn play(example: &Path, build: &str, data_path: &str) -> Result<(), String> {
    let name = example.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let title = format!("{name} as {build}");
    println!("{title}, packets by {data_path}");
    shell::run(lab().env("TRANSOM_DATA_PATH", data_path).args(["up", "--name", "example", "--build", build]).arg(example))?;
    let seen = look();
    shell::run(lab().args(["down", "--name", "example"]))?;
    compare(&shell::root().join(format!("docs/reference/labs/{name}-{build}.txt")), &seen.map_err(|error| format!("{title}: {error}"))?)
}

fn look() -> Result<String, String> {
    let flows = shell::output(lab().args(["flows", "--name", "example", "--expect", "documents"]))?;
    // Reasons name addresses, which are others every time.
    let matrix: Vec<&str> = flows.lines().filter(|line| !line.starts_with("no: ")).collect();
    let check = shell::output(lab().args(["check", "--name", "example"]))?;
    Ok(format!("{}\n\n{}\n", matrix.join("\n").trim_end(), check.trim_end()))
}

/// Compares with the file that is kept, or writes it.
pub(crate) fn compare(path: &Path, seen: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(told)?;
        return std::fs::write(path, seen).map_err(told);
    }
    let kept = std::fs::read_to_string(path).map_err(told)?;
    match kept == seen {
        true => Ok(()),
        false => Err(format!("{} is not what is seen now:\n{seen}\nlook at it, and write it with {UPDATE}=1", path.display())),
    }
}

fn chaos() -> Result<(), String> {
    let mut command = shell::cargo();
    command.args(["test", "--workspace", "--test", "labs", "chaos", "--", "--nocapture"]);
    shell::run(command.env("TRANSOM_LAB_ROUNDS", ROUNDS))
}

/// The command of labs, away from those of whoever runs this.
pub(crate) fn lab() -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
    let mut command = shell::program(target.join("debug/transom"));
    command.arg("lab").env("TRANSOM_LAB_DIR", target.join("labs"));
    command
}
