//! Programs of the system that some commands start, and the Debian packages that have them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::shell;

/// A program, and the Debian package that has it.
pub(crate) struct Tool {
    /// Its name, as PATH has it.
    pub(crate) program: &'static str,
    /// The package.
    pub(crate) package: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
}

/// Where Debian keeps programs for administrators, and CNI plugins, which not everybody's PATH has.
const ELSEWHERE: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/lib/cni"];

/// PATH, and where administrators' programs and plugins are.
pub(crate) fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&own).chain(ELSEWHERE.map(PathBuf::from));
    std::env::join_paths(all).unwrap_or(own)
}

/// The tools that are not in a path.
pub(crate) fn missing<'a>(tools: impl IntoIterator<Item = &'a Tool>, path: &OsStr) -> Vec<&'a Tool> {
    let is_there = |tool: &Tool| std::env::split_paths(path).any(|directory| directory.join(tool.program).is_file());
    tools.into_iter().filter(|tool| !is_there(tool)).collect()
}

/// Installs packages, which takes root and Debian.
pub(crate) fn install(missing: &[&Tool]) -> Result<(), String> {
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
        let tools = [Tool { program: "sh", package: "dash", purpose: "is everywhere" }];
        assert_eq!(missing(&tools, OsStr::new("/nowhere")).len(), 1);
        assert!(missing(&tools, &path()).is_empty());
    }
}
