//! Running kube-proxy.

use std::path::PathBuf;

use clap::Args;
use node::kube_proxy::config::{ConfigError, Configuration, parse_duration};
use node::kube_proxy::{Error, Options, Target};

use super::agent::AgentArgs;
use super::flanneld::Os;
use crate::cli::Global;
use crate::connect::connect;
use crate::exit::{Exit, Failure};

/// Run kube-proxy: Services of the cluster become load balancers of HNS, or rules of the kernel
///
/// Flags and file are those of Kubernetes' own kube-proxy on Windows. With --config the file counts, and of the flags only
/// --os, --hostname-override and those about logging.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KubeProxyArgs {
    /// What this node's pods are networked by: windows for HNS, the machine's or an hnsd, and the default everywhere; linux for the kernel, which
    /// Kubernetes' own takes on Linux
    #[arg(long, value_enum, default_value_t = Os::Windows)]
    os: Os,
    /// Remove what a kube-proxy with --os linux has left in the kernel, and end
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    cleanup: bool,
    /// The addresses of all pods, one prefix a family, with --os linux; by default those of this node's own pods
    #[arg(long, value_name = "PREFIX,PREFIX")]
    cluster_cidr: Option<String>,
    /// The configuration: a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How the API server is reached; without it as kubectl finds it, or by the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The node's name, if it is not the machine's
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,
    /// The HNS network that pods are on
    #[arg(long, value_name = "NAME", env = "KUBE_NETWORK")]
    network_name: Option<String>,
    /// The source address of translated connections, on overlay networks: one of the pod subnet that no pod has
    #[arg(long, value_name = "ADDRESS")]
    source_vip: Option<String>,
    /// Backends answer clients inside of the cluster themselves
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    enable_dsr: bool,
    /// The node's own HNS endpoint, which health checks are led to
    #[arg(long, value_name = "NAME", default_value = "cbr0")]
    root_hnsendpoint_name: String,
    /// Lead health checks at load balancers' addresses to the node
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    forward_healthcheck_vip: bool,
    /// The node's address, if it is not the one that the cluster knows
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    bind_address: String,
    /// Where /healthz and /livez answer; empty is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10256")]
    healthz_bind_address: String,
    /// Where /metrics, /proxyMode and /configz answer; empty is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10249")]
    metrics_bind_address: String,
    /// The mode; the only one is kernelspace with HNS, and nftables with the kernel
    #[arg(long, value_name = "MODE")]
    proxy_mode: Option<String>,
    /// How long until what HNS or the kernel has is compared again
    #[arg(long, visible_alias = "sync-period", value_name = "TIME", default_value = "30s")]
    iptables_sync_period: String,
    /// How long between two syncs at least
    #[arg(long, visible_alias = "min-sync-period", value_name = "TIME", default_value = "1s")]
    iptables_min_sync_period: String,
    /// Features to switch on or off, such as AllowServiceExternalIPs=false
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    feature_gates: Vec<String>,
    #[command(flatten)]
    agent: AgentArgs,
    /// Flags of the original that mean nothing here, so that a command line for it can stay as it is.
    #[command(flatten)]
    ignored: Ignored,
}

/// Flags that are taken and mean nothing.
#[derive(Args, Clone, Debug)]
struct Ignored {
    #[arg(long, hide = true)]
    nodeport_addresses: Option<String>,
    #[arg(long, hide = true)]
    config_sync_period: Option<String>,
    #[arg(long, hide = true)]
    kube_api_qps: Option<String>,
    #[arg(long, hide = true)]
    kube_api_burst: Option<String>,
    #[arg(short, long = "v", hide = true)]
    verbosity: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  transom kube-proxy --kubeconfig /etc/kubernetes/kube-proxy.conf --network-name cbr0 --enable-dsr
  transom kube-proxy --kubeconfig C:\\k\\config --network-name vxlan0 --source-vip 10.244.3.2
  transom kube-proxy --config /var/lib/kube-proxy/config.conf --hostname-override win-1
  transom kube-proxy --os linux --kubeconfig /etc/kubernetes/kube-proxy.conf --cluster-cidr 10.244.0.0/16

As a service of Windows:
  sc.exe create kube-proxy start= auto binPath= \"C:\\k\\transom.exe kube-proxy --windows-service --log-file C:\\k\\kube-proxy.log --config C:\\k\\kube-proxy.conf\"";

/// Runs it until it is told to stop.
pub(crate) fn run(args: KubeProxyArgs, global: Global) -> Result<(), Failure> {
    args.agent.clone().run(move || follow(args, &global))
}

fn follow(args: KubeProxyArgs, global: &Global) -> Result<(), Failure> {
    let failed = |error: Error| Failure::new(exit(&error), error.to_string());
    let os = args.os;
    if args.cleanup {
        return match os {
            Os::Linux => node::kube_proxy::clean_up().map_err(failed),
            Os::Windows => {
                Err(Failure::new(Exit::Usage, "--cleanup: HNS keeps load balancers until they are deleted one by one".to_owned())
                    .remedy("give --os linux to remove what is left in the kernel"))
            }
        };
    }
    let configuration = configuration(args).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let target = match os {
        Os::Windows => Target::Hns(connect(global)?.into()),
        Os::Linux => Target::Kernel,
    };
    node::kube_proxy::run(Options { configuration, target }).map_err(failed)
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Configuration(_) | Error::Connect(_) => Exit::Usage,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::AddrInUse => Exit::Conflict,
        Error::Io(_, error) if error.kind() == std::io::ErrorKind::PermissionDenied => Exit::Refused,
        Error::Io(..) | Error::CleanUp(_) => Exit::Failed,
    }
}

/// The configuration of a file, or of the flags.
fn configuration(args: KubeProxyArgs) -> Result<Configuration, ConfigError> {
    if let Some(path) = &args.config {
        let mut configuration = Configuration::read(path)?;
        if let Some(name) = args.hostname_override {
            configuration.hostname_override = name;
        }
        return Ok(configuration);
    }
    let time = |field: &str, text: &str| {
        let cause = || format!("{text:?} is no time; write one such as 30s or 1m30s");
        parse_duration(text).ok_or_else(|| ConfigError { field: field.to_owned(), cause: cause() })
    };
    let mut configuration = Configuration {
        hostname_override: args.hostname_override.unwrap_or_default(),
        bind_address: args.bind_address,
        healthz_bind_address: args.healthz_bind_address,
        metrics_bind_address: args.metrics_bind_address,
        mode: args.proxy_mode.unwrap_or_default(),
        cluster_cidr: args.cluster_cidr.unwrap_or_default(),
        ..Configuration::default()
    };
    configuration.client_connection.kubeconfig = args.kubeconfig.map(|path| path.display().to_string()).unwrap_or_default();
    configuration.iptables.sync_period = time("--iptables-sync-period", &args.iptables_sync_period)?;
    configuration.iptables.min_sync_period = time("--iptables-min-sync-period", &args.iptables_min_sync_period)?;
    configuration.winkernel.network_name = args.network_name.unwrap_or_default();
    configuration.winkernel.source_vip = args.source_vip.unwrap_or_default();
    configuration.winkernel.enable_dsr = args.enable_dsr;
    configuration.winkernel.root_hns_endpoint_name = args.root_hnsendpoint_name;
    configuration.winkernel.forward_health_check_vip = args.forward_healthcheck_vip;
    for gate in &args.feature_gates {
        let read = gate.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        let cause =
            || ConfigError { field: "--feature-gates".into(), cause: format!("{gate:?} is not of the form NAME=true or NAME=false") };
        let (name, value) = read.ok_or_else(cause)?;
        configuration.feature_gates.insert(name, value);
    }
    Ok(configuration)
}
