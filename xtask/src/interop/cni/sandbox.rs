//! Where the plugins play: a machine of which they see nothing but an adapter of their own.
//!
//! Some of the reference's plugins keep files in places that no configuration changes, ask an address of their cloud, or look for
//! the adapter with a certain hardware address. So the whole play, Wine's own processes included, happens in namespaces for
//! network, mounts and processes that go with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::shell;
use crate::tools::{self, Tool};

/// Where host-local keeps addresses unless it is told otherwise.
pub(super) const ADDRESSES: &str = "/var/lib/cni/networks";
/// What [`ADDRESSES`] is in, of which the sandbox has its own.
const STATE: &str = "/var/lib/cni";
/// The adapter of the sandbox, which is the one that hnsd is told of.
pub(super) const ADAPTER: &str = "Ethernet";
/// Its hardware address.
pub(super) const ADAPTER_MAC: &str = "00:15:5d:00:00:01";
/// Its address.
const ADAPTER_ADDRESS: &str = "192.0.2.10/24";
/// Says to a process that it is inside.
const INSIDE: &str = "TRANSOM_INTEROP_SANDBOX";

const TOOLS: &[Tool] = &[
    Tool { program: "ip", package: "iproute2", purpose: "makes the adapter" },
    Tool { program: "unshare", package: "util-linux", purpose: "makes namespaces" },
    Tool { program: "mount", package: "mount", purpose: "keeps the plugins' files apart" },
];

/// Whether this process is inside.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs `cargo xtask interop cni` again, inside.
pub(super) fn run_inside() -> Result<(), String> {
    let path = tools::path();
    tools::install(&tools::missing(TOOLS, &path))?;
    let was_there = Path::new(STATE).exists();
    fs::create_dir_all(STATE).map_err(|error| format!("cannot make {STATE}: {error}; this takes root"))?;
    let itself = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]).arg(itself);
    let ran = shell::run(unshare.args(["interop", "cni"]).env("PATH", path).env(INSIDE, "1"));
    if !was_there {
        // Only if it is still empty, so that nobody's addresses go.
        let _ = fs::remove_dir(STATE);
    }
    ran
}

/// Furnishes the namespaces, once inside.
pub(super) fn furnish() -> Result<(), String> {
    shell::run(Command::new("mount").args(["-t", "tmpfs", "tmpfs", STATE]))?;
    let ip = |arguments: &[&str]| shell::run(Command::new("ip").args(arguments));
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", ADAPTER, "address", ADAPTER_MAC, "type", "veth", "peer", "name", "wire0"])?;
    ip(&["address", "add", ADAPTER_ADDRESS, "dev", ADAPTER])?;
    ip(&["link", "set", "wire0", "up"])?;
    ip(&["link", "set", ADAPTER, "up"])
}

/// Forgets all addresses, for somebody new.
pub(super) fn forget_addresses() -> Result<(), String> {
    match fs::remove_dir_all(ADDRESSES) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("cannot remove {ADDRESSES}: {error}")),
        _ => Ok(()),
    }
}
