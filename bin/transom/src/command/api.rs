//! Running the embedded Kubernetes API.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use hcn::client::default_state_directory;
use host::lock::LockError;
use ipnet::IpNet;
use node::api::{Error, Options};

use crate::exit::{Exit, Failure};

/// What can be done with the API.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiVerb {
    /// Serve the Kubernetes API for this machine
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
}

/// How the API is served.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// The address to serve HTTPS on; port 0 takes any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Where objects, keys and the token are kept
    #[arg(long, value_name = "DIR", default_value_os_t = default_state_directory().join("api"))]
    state_dir: PathBuf,
    /// Write a kubeconfig for the administrator there, readable by its owner only
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where Services get their addresses from: an IPv4 range, an IPv6 range, or both, the preferred one first
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',', default_value = "10.96.0.0/12")]
    service_cidr: Vec<IpNet>,
    /// Where Services get their node ports from
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range, default_value = "30000-32767")]
    service_node_port_range: RangeInclusive<u16>,
    /// What to log: error, warn, info, debug, trace, or directives such as cluster=debug
    #[arg(long, value_name = "LEVEL", env = "TRANSOM_LOG", default_value = "info")]
    log_level: String,
    /// Start afresh if the state cannot be read, and keep the unreadable file beside it
    #[arg(long)]
    set_aside_unreadable_state: bool,
}

pub(crate) const EXAMPLES: &str = "\
Clients need the client certificate in the kubeconfig, or the token in the file `token` of the state directory.

Examples:
  transom api serve --kubeconfig ~/.kube/transom
  transom api serve --listen 127.0.0.1:0 --state-dir /var/lib/transom/api --kubeconfig /run/transom/kubeconfig
  transom api serve --service-cidr 10.96.0.0/12,fd00:96::/112
  kubectl --kubeconfig ~/.kube/transom get namespaces";

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let bounds = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match bounds {
        Some((first, last)) if first > 0 && first <= last => Ok(first..=last),
        _ => Err("write the first and the last port, such as 30000-32767".to_owned()),
    }
}

/// Does what the verb says.
pub(crate) fn run(verb: ApiVerb) -> Result<(), Failure> {
    let ApiVerb::Serve(args) = verb;
    super::log::start(&args.log_level)?;
    let options = Options {
        listen: args.listen,
        state_dir: args.state_dir,
        kubeconfig: args.kubeconfig,
        service_cidrs: args.service_cidr,
        node_ports: args.service_node_port_range,
        set_aside_unreadable: args.set_aside_unreadable_state,
    };
    node::api::run(options).map_err(|error| Failure::new(exit(&error), error.to_string()))
}

fn exit(error: &Error) -> Exit {
    use node::api::StartError as Start;
    match error {
        Error::Lock(LockError::Held { .. }) => Exit::Conflict,
        Error::Start(Start::Ranges(_)) => Exit::Usage,
        Error::Start(Start::Io(_, error)) | Error::Io(_, error) if error.kind() == std::io::ErrorKind::PermissionDenied => Exit::Refused,
        Error::Start(Start::Io(_, error)) if error.kind() == std::io::ErrorKind::AddrInUse => Exit::Conflict,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_are_read() {
        assert_eq!(port_range("30000-32767"), Ok(30000..=32767));
        assert!(port_range("5-4").is_err() && port_range("x").is_err() && port_range("0-9").is_err());
    }
}
