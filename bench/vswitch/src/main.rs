//! Measures the virtual switch against the kernel's own path and Open vSwitch: `cargo xtask bench vswitch`.
//!
//! All three are set up at the same time and measured one after the other in turn, so that whatever else the machine does falls on
//! all alike. What counts is the ratio within a round. Everything happens in namespaces that end with this program, however it ends.

#[cfg(target_os = "linux")]
mod data_path;
#[cfg(target_os = "linux")]
mod first_packet;
#[cfg(target_os = "linux")]
mod generator;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod loaded;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod programming;
mod progress;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod row;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod system;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
use rig::{cpu, links, process, sandbox};

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return options::main();
    #[cfg(not(target_os = "linux"))]
    {
        println!("error: the virtual switch runs on Linux only");
        ExitCode::FAILURE
    }
}
