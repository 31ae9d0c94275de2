//! The programs of others that ours are compared with.

use std::path::Path;

use crate::shell;

/// One of them.
struct Program {
    /// How runtimes call it.
    name: &'static str,
    /// The Go module below `interop` that names it. Releases that need different versions of one library have a module each.
    module: &'static str,
    /// Its package.
    package: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "win-bridge", module: "", package: "github.com/containernetworking/plugins/plugins/main/windows/win-bridge" },
    Program { name: "win-overlay", module: "", package: "github.com/containernetworking/plugins/plugins/main/windows/win-overlay" },
    Program { name: "host-local", module: "", package: "github.com/containernetworking/plugins/plugins/ipam/host-local" },
    Program { name: "flannel", module: "flannel", package: "github.com/containernetworking/plugins/plugins/meta/flannel" },
    Program { name: "nat", module: "microsoft", package: "github.com/Microsoft/windows-container-networking/plugins/nat" },
    Program { name: "sdnbridge", module: "microsoft", package: "github.com/Microsoft/windows-container-networking/plugins/sdnbridge" },
    Program { name: "sdnoverlay", module: "microsoft", package: "github.com/Microsoft/windows-container-networking/plugins/sdnoverlay" },
    Program { name: "azure-vnet", module: "azure", package: "github.com/Azure/azure-container-networking/cni/network/plugin" },
    Program { name: "azure-vnet-ipam", module: "azure", package: "github.com/Azure/azure-container-networking/cni/ipam/plugin" },
];

/// Builds all of them for Windows.
pub(super) fn build(into: &Path) -> Result<(), String> {
    build_some(into, |_| true)
}

/// Builds those that are wanted for Windows.
pub(in crate::interop) fn build_some(into: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    for program in PROGRAMS.iter().filter(|program| is_wanted(program.name)) {
        let mut go = shell::program("go");
        go.current_dir(shell::root().join("interop").join(program.module));
        go.envs([("GOOS", "windows"), ("GOARCH", "amd64"), ("CGO_ENABLED", "0")]);
        shell::run(go.args(["build", "-o"]).arg(into.join(format!("{}.exe", program.name))).arg(program.package))?;
    }
    Ok(())
}
