//! Running dns.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dns::Name;
use dns::forward::parse_server;
use node::dns::{Error, Options, PodNames, Settings};

use super::agent::AgentArgs;
use crate::exit::{Exit, Failure};

/// Run dns: the names of the cluster, by the Kubernetes DNS specification, and all others from servers outside
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DnsArgs {
    /// How the API server is reached; without it as kubectl finds it, or by the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where to answer, over UDP and TCP; several are fine. Without it port 53 of all addresses
    #[arg(long, value_name = "ADDRESS[:PORT]", value_delimiter = ',', value_parser = server)]
    listen: Vec<SocketAddr>,
    /// The domain of the cluster
    #[arg(long, visible_alias = "domain", value_name = "NAME", default_value = "cluster.local", value_parser = domain)]
    cluster_domain: Name,
    /// Who is asked for other names; several are asked in their order. Without it the servers of /etc/resolv.conf
    #[arg(long, value_name = "ADDRESS[:PORT]", value_delimiter = ',', value_parser = server)]
    forward: Vec<SocketAddr>,
    /// How many seconds clients may remember an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=3600))]
    ttl: u32,
    /// Which pods have names such as 10-244-1-7.default.pod.cluster.local
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Pods::Insecure)]
    pods: Pods,
    /// Where /healthz, /readyz, /livez and /metrics answer; empty is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10253")]
    health_address: String,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Which pods have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pods {
    /// None
    Disabled,
    /// Every address, whether a pod has it or not, as the specification wants it
    Insecure,
    /// Those that are there
    Verified,
}

const EXAMPLES: &str = "\
Examples:
  transom dns --kubeconfig /etc/kubernetes/dns.conf --forward 1.1.1.1 --forward 8.8.8.8
  transom dns --listen 10.96.0.10 --cluster-domain cluster.local --pods verified
  transom dns --listen 127.0.0.1:5353 --health-address 127.0.0.1:8080

Ask it:
  transom resolve kubernetes --server 127.0.0.1:5353";

/// Runs it until it is told to stop.
pub(crate) fn run(args: DnsArgs) -> Result<(), Failure> {
    args.agent.clone().run(move || follow(args))
}

fn follow(args: DnsArgs) -> Result<(), Failure> {
    let health = match args.health_address.as_str() {
        "" => None,
        text => {
            let cause = |_| Failure::new(Exit::Usage, format!("--health-address: {text:?} is not of the form ADDRESS:PORT"));
            Some(text.parse().map_err(cause)?)
        }
    };
    let pods = match args.pods {
        Pods::Disabled => PodNames::Disabled,
        Pods::Insecure => PodNames::Insecure,
        Pods::Verified => PodNames::Verified,
    };
    let settings = Settings { domain: args.cluster_domain, ttl: args.ttl, pods };
    let options = Options { kubeconfig: args.kubeconfig, listen: args.listen, settings, forward: args.forward, health };
    node::dns::run(options).map_err(|error| Failure::new(exit(&error), error.to_string()))
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Connect(_) => Exit::Usage,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::AddrInUse => Exit::Conflict,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::PermissionDenied => Exit::Refused,
        Error::Io(..) => Exit::Failed,
    }
}

/// Reads an address with or without a port.
pub(super) fn server(text: &str) -> Result<SocketAddr, String> {
    parse_server(text).ok_or_else(|| "write an address, or ADDRESS:PORT, such as 10.96.0.10 or [fd00::a]:53".to_owned())
}

/// Reads a domain. It is fully qualified, with or without a dot at its end.
pub(super) fn domain(text: &str) -> Result<Name, String> {
    let mut name = Name::from_ascii(text).map_err(|error| error.to_string())?;
    if name.is_root() || text.is_empty() {
        return Err("write a name such as cluster.local".to_owned());
    }
    name.set_fqdn(true);
    Ok(name)
}
