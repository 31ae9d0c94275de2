//! Measures labs of growing size: `cargo xtask bench lab`.
//!
//! One after the other goes up, is measured, has some of its flows tried, and goes down. Everything happens in namespaces that end with
//! this program, however it ends.

#[cfg(target_os = "linux")]
mod content;
#[cfg(target_os = "linux")]
mod growth;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod subject;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return options::main();
    #[cfg(not(target_os = "linux"))]
    {
        println!("error: labs are made on Linux only");
        ExitCode::FAILURE
    }
}
