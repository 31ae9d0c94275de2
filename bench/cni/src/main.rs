//! Measures CNI plugins as a runtime starts them, against Debian's `bridge` with `host-local`: `cargo xtask bench cni`.
//!
//! All are set up at the same time and take turns, so that whatever else the machine does falls on all alike. Everything happens in
//! namespaces that end with this program, however it ends.

#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod pod;
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
        println!("error: plugins are compared on Linux only");
        ExitCode::FAILURE
    }
}
