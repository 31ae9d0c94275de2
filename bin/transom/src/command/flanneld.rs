//! Running flannel's node agent.

mod foreign;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use cluster::connect::Source;
use flannel::agent::Settings;
use flannel::annotation::{DEFAULT_PREFIX, Prefix};
use flannel::interface::Choice;
use flannel::net_conf::NetConf;
use node::flanneld::{Error, Options, OwnPod, Target};
use regex::Regex;

use self::foreign::Foreign;
use super::agent::AgentArgs;
use crate::cli::Global;
use crate::connect::connect;
use crate::exit::{Exit, Failure};

/// Run flannel's node agent: subnets from the cluster, and the ways to all other nodes
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlanneldArgs {
    /// What this node's pods are networked by: windows for HNS, the machine's or an hnsd; linux for the kernel
    #[arg(long, value_enum, env = "FLANNELD_OS", default_value_t = Os::default(), help_heading = "Node")]
    os: Os,
    /// The name of this node's Node object; by default that of the pod POD_NAMESPACE/POD_NAME, or else the machine's name
    #[arg(long, value_name = "NAME", env = "NODE_NAME", help_heading = "Node")]
    node_name: Option<String>,
    /// Take subnets from Nodes; there is no other way here
    #[arg(long, env = "FLANNELD_KUBE_SUBNET_MGR", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = flag)]
    kube_subnet_mgr: bool,
    /// A kubeconfig; without one the usual places, and the pod's service account
    #[arg(long, alias = "kubeconfig", env = "FLANNELD_KUBECONFIG_FILE", value_name = "FILE")]
    kubeconfig_file: Option<PathBuf>,
    /// The API server's address, if it is not the one of the kubeconfig or the service account
    #[arg(long, env = "FLANNELD_KUBE_API_URL", value_name = "URL")]
    kube_api_url: Option<String>,
    /// What annotations begin with
    #[arg(long, env = "FLANNELD_KUBE_ANNOTATION_PREFIX", value_name = "PREFIX", default_value = DEFAULT_PREFIX)]
    kube_annotation_prefix: String,
    /// The networks of all pods, and the backend
    #[arg(long, env = "FLANNELD_NET_CONFIG_PATH", value_name = "FILE", default_value = "/etc/kube-flannel/net-conf.json")]
    net_config_path: PathBuf,
    /// What CNI plugins read
    #[arg(long, env = "FLANNELD_SUBNET_FILE", value_name = "FILE", default_value = "/run/flannel/subnet.env")]
    subnet_file: PathBuf,
    /// The interface to other nodes, by name or address; the first that is there counts
    #[arg(long, env = "FLANNELD_IFACE", value_name = "NAME|ADDRESS", value_delimiter = ',')]
    iface: Vec<String>,
    /// The same by an expression that an address or else a name matches
    #[arg(long, env = "FLANNELD_IFACE_REGEX", value_name = "EXPRESSION")]
    iface_regex: Vec<Regex>,
    /// The interface that leads to this address, if none of the others is there
    #[arg(long, env = "FLANNELD_IFACE_CAN_REACH", value_name = "ADDRESS")]
    iface_can_reach: Option<IpAddr>,
    /// The address that other nodes send to, if it is not the interface's
    #[arg(long, env = "FLANNELD_PUBLIC_IP", value_name = "ADDRESS")]
    public_ip: Option<Ipv4Addr>,
    /// The same for IPv6
    #[arg(long, env = "FLANNELD_PUBLIC_IPV6", value_name = "ADDRESS")]
    public_ipv6: Option<Ipv6Addr>,
    /// Pods leave the pods' network with the node's address
    #[arg(long, env = "FLANNELD_IP_MASQ", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = flag)]
    ip_masq: bool,
    /// Clear the Node's condition NetworkUnavailable
    #[arg(long, env = "FLANNELD_SET_NODE_NETWORK_UNAVAILABLE", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", value_parser = flag)]
    set_node_network_unavailable: bool,
    /// The address of /healthz and /readyz
    #[arg(long, env = "FLANNELD_HEALTHZ_IP", value_name = "ADDRESS", default_value = "0.0.0.0")]
    healthz_ip: IpAddr,
    /// The port of /healthz and /readyz; 0 for none
    #[arg(long, env = "FLANNELD_HEALTHZ_PORT", value_name = "PORT", default_value_t = 0)]
    healthz_port: u16,
    #[command(flatten)]
    agent: AgentArgs,
    /// Flags of the original that mean nothing here.
    #[command(flatten)]
    foreign: Foreign,
}

/// What pods are networked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Os {
    /// HNS.
    Windows,
    /// The kernel.
    Linux,
}

impl Default for Os {
    /// What the program runs on, as the original has it.
    fn default() -> Self {
        if cfg!(windows) { Self::Windows } else { Self::Linux }
    }
}

const EXAMPLES: &str = "\
On Linux --os windows makes this a node whose pods are on our HNS; --hnsd says where that is.

Examples:
  transom flanneld --kubeconfig-file /run/transom/kubeconfig --ip-masq
  transom flanneld --os windows --hnsd /run/transom/hnsd.sock --iface eth0 --healthz-port 10252

net-conf.json:
  {\"Network\":\"10.244.0.0/16\",\"Backend\":{\"Type\":\"vxlan\",\"VNI\":4096,\"Port\":4789}}";

/// A boolean as Go's flags take it.
fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Ok(true),
        "0" | "f" | "false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// Runs the agent until it is told to stop.
pub(crate) fn run(args: FlanneldArgs, global: Global) -> Result<(), Failure> {
    args.agent.clone().run(move || follow(args, &global))
}

fn follow(args: FlanneldArgs, global: &Global) -> Result<(), Failure> {
    let options = options(args, global)?;
    node::flanneld::run(options).map_err(|error| Failure::new(exit(&error), error.to_string()))
}

fn options(args: FlanneldArgs, global: &Global) -> Result<Options, Failure> {
    let usage = |cause: String| Failure::new(Exit::Usage, cause);
    if !args.kube_subnet_mgr {
        return Err(usage("--kube-subnet-mgr=false: subnets come from Nodes only; leave it out".to_owned()));
    }
    if let Some((flag, cause)) = args.foreign.refused() {
        return Err(usage(format!("--{flag}: {cause}")));
    }
    let path = args.net_config_path.display();
    let text = std::fs::read_to_string(&args.net_config_path)
        .map_err(|error| usage(format!("{path} cannot be read: {error}")).remedy("write it, or name another with --net-config-path"))?;
    let net_conf = NetConf::parse(&text).map_err(|error| usage(format!("{path}: {error}")))?;
    let prefix = Prefix::new(&args.kube_annotation_prefix).map_err(|error| usage(format!("--kube-annotation-prefix: {error}")))?;
    let public = args.public_ip.map(IpAddr::V4).into_iter().chain(args.public_ipv6.map(IpAddr::V6)).collect();
    let node_name = args.node_name.filter(|name| !name.is_empty());
    let pod = if node_name.is_some() { None } else { own_pod() };
    let node_name = node_name
        .or_else(machine_name)
        .ok_or_else(|| usage("nothing says which Node this is".to_owned()).remedy("set NODE_NAME to the name of the Node"))?;
    Ok(Options {
        source: source(args.kubeconfig_file, args.kube_api_url),
        settings: Settings {
            node_name,
            net_conf,
            prefix,
            choice: Choice {
                names: args.iface.into_iter().filter(|name| !name.is_empty()).collect(),
                expressions: args.iface_regex,
                reach: args.iface_can_reach,
                public,
            },
            subnet_file: args.subnet_file,
            ip_masq: args.ip_masq,
        },
        pod,
        ignored: args.foreign.ignored().collect(),
        target: match args.os {
            Os::Windows => Target::Hns(Arc::from(connect(global)?)),
            Os::Linux => Target::Kernel,
        },
        health: (args.healthz_port != 0).then(|| SocketAddr::new(args.healthz_ip, args.healthz_port)),
        announce: args.set_node_network_unavailable,
    })
}

/// Where it is said how the API server is reached. What is empty counts as not given, as in the original.
fn source(kubeconfig: Option<PathBuf>, url: Option<String>) -> Source {
    let kubeconfig = kubeconfig.filter(|file| !file.as_os_str().is_empty());
    let source = kubeconfig.map_or(Source::Usual, |path| Source::File { path, context: None });
    match url.filter(|url| !url.is_empty()) {
        Some(url) => Source::At { url, source: Box::new(source) },
        None => source,
    }
}

/// The pod that this runs in, if its manifest says so as the original's does.
fn own_pod() -> Option<OwnPod> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Some(OwnPod { namespace: variable("POD_NAMESPACE")?, name: variable("POD_NAME")? })
}

/// The machine's name, as Nodes are named after it.
fn machine_name() -> Option<String> {
    let name = std::env::var("COMPUTERNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    name.ok().map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty())
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Unsupported(_) => Exit::Usage,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::AddrInUse => Exit::Conflict,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::PermissionDenied => Exit::Refused,
        Error::Io(..) => Exit::Failed,
    }
}
