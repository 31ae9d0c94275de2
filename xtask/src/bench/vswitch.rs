//! `cargo xtask bench vswitch`: the virtual switch against the kernel's own path and Open vSwitch.

use crate::tools::{self, Tool};
use crate::{dist, shell};

/// What the benchmark starts.
const TOOLS: &[Tool] = &[
    Tool { program: "ip", package: "iproute2", purpose: "makes links" },
    Tool { program: "ethtool", package: "ethtool", purpose: "makes a veth behave like a wire" },
    Tool { program: "iperf3", package: "iperf3", purpose: "makes streams" },
    Tool { program: "ovs-vswitchd", package: "openvswitch-switch", purpose: "is compared with" },
];

/// The option that leaves Open vSwitch out.
const WITHOUT_OVS: &str = "--no-ovs";

/// Builds everything, sees to what is missing and measures.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let path = tools::path();
    let without_ovs = arguments.iter().any(|argument| argument == WITHOUT_OVS);
    tools::install(&tools::missing(wanted(without_ovs), &path))?;
    let packages = ["transom", "vfp-bench", "vswitch-bench"];
    shell::run(shell::cargo().args(["build", "--release"]).args(packages.iter().flat_map(|package| ["--package", package])))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("vswitch-bench"));
    command.env("PATH", path).arg("--transom").arg(release.join("transom"));
    shell::run(command.arg("--vfp-bench").arg(release.join("vfp-bench")).args(arguments))
}

/// The tools that a run needs.
fn wanted(without_ovs: bool) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(move |tool| !(without_ovs && tool.program.starts_with("ovs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_vswitch_can_be_left_out() {
        assert_eq!(wanted(false).count(), TOOLS.len());
        assert!(wanted(true).all(|tool| tool.package != "openvswitch-switch"));
    }
}
