//! `cargo xtask bench vswitch`: the virtual switch against the kernel's own path and Open vSwitch.

use super::tool::{self, Tool};
use crate::{dist, shell};

const TOOLS: &[Tool] = &[
    tool::IP,
    Tool { program: "ethtool", package: "ethtool", purpose: "makes a veth behave like a wire" },
    Tool { program: "iperf3", package: "iperf3", purpose: "makes streams" },
    Tool { program: "ovs-vswitchd", package: "openvswitch-switch", purpose: "is compared with" },
];

/// The option that leaves Open vSwitch out.
const WITHOUT_OVS: &str = "--no-ovs";

/// Builds everything, sees to what is missing and measures.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let without_ovs = arguments.iter().any(|argument| argument == WITHOUT_OVS);
    let is_wanted = |tool: &&Tool| !(without_ovs && tool.program.starts_with("ovs"));
    tool::install(&TOOLS.iter().filter(is_wanted).collect::<Vec<_>>())?;
    let packages = ["transom", "vfp-bench", "vswitch-bench"];
    shell::run(shell::cargo().args(["build", "--release"]).args(packages.iter().flat_map(|package| ["--package", package])))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("vswitch-bench"));
    command.env("PATH", tool::path()).arg("--transom").arg(release.join("transom"));
    shell::run(command.arg("--vfp-bench").arg(release.join("vfp-bench")).args(arguments))
}
