//! `cargo xtask bench NAME`: builds in release mode and measures.

mod api;
mod proxy;
mod vswitch;

use crate::tools::{self, Tool};
use crate::{dist, shell};

/// Runs a benchmark.
pub(crate) fn run(name: &str, arguments: &[String]) -> Result<(), String> {
    match name {
        "api" => api::run(arguments),
        "hns" => hns(arguments),
        "cni" => cni(arguments),
        "lab" => lab(arguments),
        "proxy" => proxy::run(arguments),
        "vswitch" => vswitch::run(arguments),
        _ => Err(format!("there is no benchmark {name:?}; there are: api, cni, hns, lab, proxy, vswitch")),
    }
}

/// Measures hnsd over its socket. The benchmark is a program of its own because its clients must be no part of hnsd.
fn hns(arguments: &[String]) -> Result<(), String> {
    shell::run(shell::cargo().args(["build", "--release", "--package", "transom", "--package", "hns-bench"]))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("hns-bench"));
    shell::run(command.arg("--transom").arg(release.join("transom")).args(arguments))
}

/// Measures labs of growing size.
fn lab(arguments: &[String]) -> Result<(), String> {
    shell::run(shell::cargo().args(["build", "--release", "--package", "transom", "--package", "lab-bench"]))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("lab-bench"));
    shell::run(command.arg("--transom").arg(release.join("transom")).args(arguments))
}

/// Measures plugins against Debian's.
fn cni(arguments: &[String]) -> Result<(), String> {
    let wanted = [
        Tool { program: "ip", package: "iproute2", purpose: "makes links" },
        Tool { program: "host-local", package: "containernetworking-plugins", purpose: "is compared with, beside its bridge" },
    ];
    let path = tools::path();
    tools::install(&tools::missing(&wanted, &path))?;
    shell::run(shell::cargo().args(["build", "--release", "--package", "transom", "--package", "cni-bench"]))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("cni-bench"));
    shell::run(command.env("PATH", path).arg("--transom").arg(release.join("transom")).args(arguments))
}
