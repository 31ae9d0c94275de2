//! The two proxies.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::hns::{Hns, NETWORK};

/// The node that they run as.
pub(crate) const NODE: &str = "here";

/// One of the two.
pub(crate) enum Subject {
    /// Ours, as a process of this system.
    Ours,
    /// Kubernetes' own, under Wine.
    Original {
        /// The program.
        program: PathBuf,
        /// The prefix with our DLLs.
        prefix: PathBuf,
    },
}

/// A proxy under way. Dropping it ends it.
pub(crate) struct Process(Child);

impl Process {
    /// Fails if it has ended, which nobody asked for.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the proxy has ended: {status}")),
            Err(error) => Err(format!("the proxy cannot be asked for: {error}")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Subject {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ours => "transom",
            Self::Original { .. } => "kube-proxy.exe",
        }
    }

    /// Starts it on an hnsd, through a relay if there is one.
    pub(crate) fn start(&self, transom: &Path, kubeconfig: &Path, hns: &Hns, relay: Option<u16>) -> Result<Process, String> {
        let log = hns.log("kube-proxy.log")?;
        let mut command = match self {
            Self::Ours => ours(transom, hns, relay),
            Self::Original { program, prefix } => original(program, prefix, hns, relay)?,
        };
        let kubeconfig = match self {
            Self::Ours => kubeconfig.display().to_string(),
            Self::Original { .. } => format!("Z:{}", kubeconfig.display()).replace('/', r"\"),
        };
        command.args(["--kubeconfig", &kubeconfig, "--network-name", NETWORK, "--hostname-override", NODE, "--bind-address", "192.0.2.10"]);
        // The original takes no port that is still to be chosen.
        command.args(["--healthz-bind-address", &free_address()?, "--metrics-bind-address", &free_address()?]);
        let output = log.try_clone().map_err(|error| format!("no log: {error}"))?;
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        command.spawn().map(Process).map_err(|error| format!("cannot start {}: {error}", self.name()))
    }
}

/// An address of this machine that nobody listens at.
fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("no port: {error}"))?;
    listener.local_addr().map(|address| address.to_string()).map_err(|error| format!("no port: {error}"))
}

fn ours(transom: &Path, hns: &Hns, relay: Option<u16>) -> Command {
    let mut command = Command::new(transom);
    match relay {
        None => _ = command.arg("--hnsd").arg(format!("unix:{}", hns.socket().display())),
        Some(port) => _ = command.arg("--hnsd").arg(format!("127.0.0.1:{port}")).arg("--token-file").arg(hns.token_file()),
    }
    command.arg("kube-proxy");
    command
}

fn original(program: &Path, prefix: &Path, hns: &Hns, relay: Option<u16>) -> Result<Command, String> {
    let port = relay.map_or_else(|| hns.port(), Ok)?;
    let mut command = Command::new("wine");
    command.env("WINEPREFIX", prefix).env("WINEARCH", "win64").env("WINEDEBUG", "-all");
    command.env("WINEDLLOVERRIDES", "mscoree,mshtml,wmic.exe=").env_remove("DISPLAY");
    // Our DLLs in the prefix read these.
    command.env("TRANSOM_HNSD", format!("127.0.0.1:{port}")).env("TRANSOM_TOKEN_FILE", format!("Z:{}", hns.token_file().display()));
    command.arg(program).args(["--proxy-mode", "kernelspace"]);
    Ok(command)
}

/// What a proxy holds in memory, in MiB.
pub(crate) fn memory(process: &Process) -> Result<f64, String> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).map_err(|error| format!("the proxy has ended: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the proxy has ended")?;
    let kilobytes: f64 = line.split_whitespace().next().and_then(|size| size.parse().ok()).ok_or("the kernel tells no size")?;
    Ok(kilobytes / 1024.0)
}
