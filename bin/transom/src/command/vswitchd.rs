//! Running the virtual switch.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use host::lock::LockError;
use host::socket::SocketError;
use node::vswitchd::{DataPath, Error, Options, default_namespace_dir, default_socket};

use crate::exit::{Exit, Failure};

/// Run the virtual switch
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VswitchdArgs {
    /// The Unix socket through which hnsd programs it
    #[arg(long, value_name = "PATH", env = "TRANSOM_VSWITCHD", default_value_os_t = default_socket())]
    pub(crate) socket: PathBuf,
    /// Where network namespaces have their names, each by the id of its HCN namespace
    #[arg(long, value_name = "DIR", default_value_os_t = default_namespace_dir())]
    pub(crate) namespace_dir: PathBuf,
    /// How packets of pods are moved: by this process (tap), or known flows by the kernel (bpf), or by the kernel where it can (auto)
    #[arg(long, value_name = "tap|bpf|auto", env = "TRANSOM_DATA_PATH", default_value_t, value_parser = data_path)]
    pub(crate) data_path: DataPath,
    /// Threads that move packets; by default one for two cores
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: Option<u16>,
    /// How long a worker looks for packets before it sleeps, while they follow each other closely; 0 to sleep at once
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50)]
    pub(crate) spin: u64,
    /// How many connections the switch remembers
    #[arg(long, value_name = "COUNT", default_value_t = vfp_limits().connections as u32, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) connections: u32,
    /// Keep the tables of flows and connections in huge pages: less time per packet where there are many flows, more memory at once
    #[arg(long)]
    pub(crate) huge_pages: bool,
    /// The transport ports that outbound translation takes; the machine's own sockets should not use them
    #[arg(long, value_name = "FIRST-LAST", default_value = "61000-65535", value_parser = port_range)]
    pub(crate) nat_ports: RangeInclusive<u16>,
    /// What to log: error, warn, info, debug, trace, or directives such as node=debug
    #[arg(long, value_name = "LEVEL", env = "TRANSOM_LOG", default_value = "info")]
    pub(crate) log_level: String,
}

const EXAMPLES: &str = "\
It needs the right to make network devices: run it as root, or in a user namespace of your own (unshare -Urnm).

Examples:
  transom vswitchd
  transom vswitchd --workers 2 --spin 0
  transom vswitchd --data-path auto
  transom vfp port list";

fn vfp_limits() -> node::vswitchd::Limits {
    node::vswitchd::Limits::default()
}

fn data_path(text: &str) -> Result<DataPath, String> {
    let found = DataPath::ALL.into_iter().find(|path| path.to_string() == text);
    found.ok_or_else(|| format!("there is {}", DataPath::ALL.map(|path| path.to_string()).join(", ")))
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || "write two ports, such as 61000-65535".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last): (u16, u16) = (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
    match first > 0 && first <= last {
        true => Ok(first..=last),
        false => Err(wrong()),
    }
}

/// Runs the switch until it is told to stop.
pub(crate) fn run(args: VswitchdArgs) -> Result<(), Failure> {
    super::log::start(&args.log_level)?;
    let connections = args.connections as usize;
    let options = Options {
        socket: args.socket,
        namespace_dir: args.namespace_dir,
        workers: args.workers.map(usize::from),
        spin: Duration::from_micros(args.spin),
        limits: node::vswitchd::Limits { connections, flows: 2 * connections, ..vfp_limits() },
        data_path: args.data_path,
        nat_ports: args.nat_ports,
        huge_pages: args.huge_pages,
    };
    node::vswitchd::run(options).map_err(|error| Failure::new(exit(&error), error.to_string()))
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Lock(LockError::Held { .. }) | Error::Socket(SocketError::InUse(_)) => Exit::Conflict,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::PermissionDenied => Exit::Refused,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_paths() {
        assert_eq!(data_path("bpf"), Ok(DataPath::Bpf));
        assert_eq!(data_path("ebpf"), Err("there is tap, bpf, auto".to_owned()));
    }

    #[test]
    fn ranges_of_ports() {
        assert_eq!(port_range("61000-65535"), Ok(61000..=65535));
        for wrong in ["", "80", "90-80", "0-10", "a-b", "1-70000"] {
            assert!(port_range(wrong).is_err(), "{wrong}");
        }
    }
}
