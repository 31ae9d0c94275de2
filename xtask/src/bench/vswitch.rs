//! `cargo xtask bench vswitch`: the virtual switch against the kernel's own path and Open vSwitch.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{dist, shell};

/// A program that the benchmark starts, and the Debian package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "ip", package: "iproute2", purpose: "makes links" },
    Tool { program: "ethtool", package: "ethtool", purpose: "makes a veth behave like a wire" },
    Tool { program: "iperf3", package: "iperf3", purpose: "makes streams" },
    Tool { program: "ovs-vswitchd", package: "openvswitch-switch", purpose: "is compared with" },
];

/// The option that leaves Open vSwitch out.
const WITHOUT_OVS: &str = "--no-ovs";

/// Where Debian keeps programs for administrators, which not everybody's PATH has.
const ADMINISTRATION: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Builds everything, sees to what is missing and measures.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let path = path();
    let without_ovs = arguments.iter().any(|argument| argument == WITHOUT_OVS);
    install(&missing(&path, without_ovs))?;
    let packages = ["transom", "vfp-bench", "vswitch-bench"];
    shell::run(shell::cargo().args(["build", "--release"]).args(packages.iter().flat_map(|package| ["--package", package])))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("vswitch-bench"));
    command.env("PATH", path).arg("--transom").arg(release.join("transom"));
    shell::run(command.arg("--vfp-bench").arg(release.join("vfp-bench")).args(arguments))
}

/// PATH, and where administrators' programs are.
fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&own).chain(ADMINISTRATION.map(PathBuf::from));
    std::env::join_paths(all).unwrap_or(own)
}

fn missing(path: &OsString, without_ovs: bool) -> Vec<&'static Tool> {
    let is_there = |tool: &Tool| std::env::split_paths(path).any(|directory| directory.join(tool.program).is_file());
    let is_wanted = |tool: &Tool| !(without_ovs && tool.program.starts_with("ovs"));
    TOOLS.iter().filter(|tool| is_wanted(tool) && !is_there(tool)).collect()
}

/// Installs packages, which takes root and Debian.
fn install(missing: &[&Tool]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    for tool in missing {
        println!("set-up: {} is missing, installing {} ({})", tool.program, tool.package, tool.purpose);
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let by_hand = |error: String| format!("{error}; install them yourself, for example with `apt install {}`", packages.join(" "));
    let apt = || {
        let mut command = shell::program("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    shell::run(apt().args(["update", "-qq"])).map_err(by_hand)?;
    shell::run(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(&packages)).map_err(by_hand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nowhere_is_missing() {
        let nowhere = OsString::from("/nowhere");
        assert_eq!(missing(&nowhere, false).len(), TOOLS.len());
        assert!(missing(&nowhere, true).iter().all(|tool| tool.package != "openvswitch-switch"));
    }
}
