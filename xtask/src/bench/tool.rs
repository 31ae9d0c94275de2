//! Programs that benchmarks start, and where they come from.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::shell;

/// A program that a benchmark starts, and the Debian package that has it.
pub(super) struct Tool {
    pub(super) program: &'static str,
    pub(super) package: &'static str,
    pub(super) purpose: &'static str,
}

/// The program for links, which all of them need.
pub(super) const IP: Tool = Tool { program: "ip", package: "iproute2", purpose: "makes links" };

/// Where Debian keeps programs for administrators, which not everybody's PATH has, and CNI plugins.
const ELSEWHERE: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/lib/cni"];

/// PATH, and where administrators' programs are.
pub(super) fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&own).chain(ELSEWHERE.map(PathBuf::from));
    std::env::join_paths(all).unwrap_or(own)
}

/// The tools that are nowhere.
fn missing<'a>(path: &OsStr, tools: &[&'a Tool]) -> Vec<&'a Tool> {
    let is_there = |tool: &Tool| std::env::split_paths(path).any(|directory| directory.join(tool.program).is_file());
    tools.iter().copied().filter(|tool| !is_there(tool)).collect()
}

/// Installs what is missing, which takes root and Debian.
pub(super) fn install(tools: &[&Tool]) -> Result<(), String> {
    let missing = missing(&path(), tools);
    if missing.is_empty() {
        return Ok(());
    }
    for tool in &missing {
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
        let shell = Tool { program: "sh", package: "dash", purpose: "runs" };
        assert_eq!(missing(OsStr::new("/nowhere"), &[&IP, &shell]).len(), 2);
        assert!(missing(OsStr::new("/bin"), &[&shell]).is_empty());
    }
}
