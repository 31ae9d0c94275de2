//! `cargo xtask bench proxy`: our kube-proxy against Kubernetes' own, on one HNS.

use crate::interop::{kubernetes, wine};
use crate::{dist, shell};

/// Builds everything and measures. Ours alone is measured with `--ours-only`.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let (ours_only, arguments): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|argument| *argument == "--ours-only");
    shell::run(shell::cargo().args(["build", "--release", "--package", "transom", "--package", "proxy-bench"]))?;
    let release = dist::target_directory()?.join("release");
    let mut command = shell::program(release.join("proxy-bench"));
    command.arg("--transom").arg(release.join("transom"));
    if ours_only.is_empty() {
        let original = kubernetes::windows_proxy()?;
        dist::build()?;
        let prefix = wine::Prefix::prepare(&dist::target_directory()?.join("interop"))?;
        command.arg("--original").arg(original).arg("--wine-prefix").arg(prefix.directory());
    }
    shell::run(command.args(arguments))
}
