//! The program that is tested.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The `transom` program of this build: named by TRANSOM_PROGRAM, or built by the cargo that runs this test.
pub(crate) fn program() -> PathBuf {
    env::var_os("TRANSOM_PROGRAM").map_or_else(build, PathBuf::from)
}

fn build() -> PathBuf {
    let this = env::current_exe().expect("a program knows where it is");
    let profile = this.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST").to_owned();
    let target = profile.parent().expect("target/PROFILE");
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--workspace", "--bin", "transom", "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be started");
    assert!(status.success(), "transom cannot be built: {status}");
    profile.join("transom")
}
