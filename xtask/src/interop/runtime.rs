//! containerd, with real processes in pods on our networks.
//!
//! The scene is a test of the crate `node`, which makes nodes of namespaces. `cargo test` plays it where containerd happens to be;
//! here it is installed, and leaving anything out is a failure.

use std::time::Duration;

use super::{limited, step};
use crate::shell;
use crate::tools::{self, Tool};

/// What the test starts.
const TOOLS: &[Tool] = &[
    Tool { program: "ip", package: "iproute2", purpose: "makes links" },
    Tool { program: "containerd", package: "containerd", purpose: "is the runtime" },
    Tool { program: "ctr", package: "containerd", purpose: "calls the plugins" },
    Tool { program: "runc", package: "runc", purpose: "makes the containers" },
    Tool { program: "busybox", package: "busybox-static", purpose: "is all that is in the containers" },
];

/// Building and running.
const LIMIT: Duration = Duration::from_secs(1200);

/// Installs what is missing, and runs the test.
pub(super) fn run() -> Result<(), String> {
    let path = tools::path();
    tools::install(&tools::missing(TOOLS, &path))?;
    step("run containerd on our networks");
    let mut cargo = shell::cargo();
    cargo.args(["test", "--workspace", "--test", "runtimes", "--", "--nocapture", "containerd::"]).env("PATH", path);
    let (mut left_out, mut played) = (None, false);
    let status = limited::run(&mut cargo, LIMIT, |line| {
        println!("{line}");
        left_out = left_out.take().or_else(|| line.find("skipped: ").map(|at| line[at..].to_owned()));
        played |= line.starts_with("test result: ok. 1 passed");
    })?;
    match left_out {
        _ if !status.success() => Err(format!("the test failed: {status}")),
        Some(why) => Err(format!("the test was {why}")),
        None if !played => Err("no such test was run".to_owned()),
        None => Ok(()),
    }
}
