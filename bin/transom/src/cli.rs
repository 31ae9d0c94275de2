//! The command line: nouns, verbs and their options. Nothing is done here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::command::policy;
use crate::exit;
use crate::output::Format;

/// Windows container networking: one command.
#[derive(Debug, Parser)]
#[command(name = "transom", version, after_help = exit::HELP, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// The hnsd to talk to: unix:/path, a path, or 127.0.0.1:PORT; on Windows the machine's own HNS without it
    // On Windows the variable is for the DLLs under Wine: the command goes through them as on a Windows node.
    #[cfg_attr(not(windows), arg(env = "TRANSOM_HNSD", hide_env_values = true))]
    #[arg(long, global = true, value_name = "ADDRESS", help_heading = "Global options")]
    pub(crate) hnsd: Option<String>,
    /// The file with the token that hnsd asks for over TCP
    #[arg(long, global = true, value_name = "FILE", env = "TRANSOM_TOKEN_FILE", hide_env_values = true, help_heading = "Global options")]
    pub(crate) token_file: Option<PathBuf>,
    /// How to print: table, wide (full ids, more columns), json or yaml
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT", hide_possible_values = true, help_heading = "Global options")]
    pub(crate) output: Format,
}

/// The nouns.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Labs: mixed clusters of Windows and Linux nodes on this machine
    #[cfg(target_os = "linux")]
    #[command(aliases = ["labs"], after_help = crate::command::lab::EXAMPLES)]
    Lab {
        /// The verb.
        #[command(subcommand)]
        verb: crate::command::lab::LabVerb,
    },
    /// Containers of a lab's Windows nodes
    #[cfg(target_os = "linux")]
    #[command(aliases = ["containers"])]
    Container {
        /// The verb.
        #[command(subcommand)]
        verb: crate::command::lab::ContainerVerb,
    },
    /// Networks: a virtual switch with subnets, an address pool and policies
    #[command(visible_aliases = ["net"], aliases = ["networks", "nets"], after_help = NETWORK_EXAMPLES)]
    Network {
        /// The verb.
        #[command(subcommand)]
        verb: ObjectVerb,
    },
    /// Endpoints: a NIC of a container
    #[command(visible_aliases = ["ep"], aliases = ["endpoints", "eps"], after_help = ENDPOINT_EXAMPLES)]
    Endpoint {
        /// The verb.
        #[command(subcommand)]
        verb: ObjectVerb<OfNetwork, OnNetwork>,
    },
    /// Namespaces: the network compartment of a container
    #[command(visible_aliases = ["ns"], aliases = ["namespaces"], after_help = NAMESPACE_EXAMPLES)]
    Namespace {
        /// The verb.
        #[command(subcommand)]
        verb: NamespaceVerb,
    },
    /// Load balancers: virtual addresses in front of endpoints
    #[command(visible_aliases = ["lb"], aliases = ["loadbalancers", "load-balancer", "load-balancers", "lbs"], after_help = LOAD_BALANCER_EXAMPLES)]
    Loadbalancer {
        /// The verb.
        #[command(subcommand)]
        verb: ObjectVerb,
    },
    /// SDN routes: where packets of endpoints go for a prefix
    #[command(aliases = ["routes"], after_help = ROUTE_EXAMPLES)]
    Route {
        /// The verb.
        #[command(subcommand)]
        verb: ObjectVerb,
    },
    /// Policies of networks, endpoints and load balancers
    #[command(aliases = ["policies"], after_help = policy::EXAMPLES)]
    Policy {
        /// The verb.
        #[command(subcommand)]
        verb: PolicyVerb,
    },
    /// What Microsoft's hnsdiag prints, from this service
    Hnsdiag {
        /// The verb.
        #[command(subcommand)]
        verb: HnsdiagVerb,
    },
    /// CNI plugins: install them, call them
    #[command(after_help = crate::command::cni::EXAMPLES)]
    Cni {
        /// The verb.
        #[command(subcommand)]
        verb: crate::command::cni::CniVerb,
    },
    /// The Windows builds that hnsd can run as
    #[command(aliases = ["profiles"])]
    Profile {
        /// The verb.
        #[command(subcommand)]
        verb: ProfileVerb,
    },
    /// The Kubernetes API for one machine
    #[cfg(unix)]
    #[command(after_help = crate::command::api::EXAMPLES)]
    Api {
        /// The verb.
        #[command(subcommand)]
        verb: crate::command::api::ApiVerb,
    },
    /// Run the Host Networking Service
    #[cfg(unix)]
    Hnsd(crate::command::hnsd::HnsdArgs),
    /// Run the virtual switch
    #[cfg(unix)]
    Vswitchd(crate::command::vswitchd::VswitchdArgs),
    /// Run kube-proxy: Services of the cluster become load balancers of HNS
    KubeProxy(Box<crate::command::kube_proxy::KubeProxyArgs>),
    /// Run dns: the names of the cluster, and all others from servers outside
    Dns(Box<crate::command::dns::DnsArgs>),
    /// Ask for a name as a pod on a Windows node does, step by step, and see what Linux would have answered
    Resolve(Box<crate::command::resolve::ResolveArgs>),
    /// Run a stand-in for the fabric that L2Tunnel networks talk to
    #[cfg(unix)]
    Fabric(crate::command::fabric::FabricArgs),
    /// Run flannel's node agent: subnets from the cluster, and the ways to all other nodes
    Flanneld(Box<crate::command::flanneld::FlanneldArgs>),
    /// Look into the switch: ports, rules, flows, counters, packets
    #[cfg(unix)]
    Vfp {
        /// The verb.
        #[command(subcommand)]
        verb: crate::command::vfp::VfpVerb,
    },
    /// Run the built-in server of pods: tells who called it, sends back what it gets
    Netexec(crate::command::netexec::NetexecArgs),
    /// Stand in for Kubernetes' test image
    #[command(hide = true)]
    Agnhost {
        /// What the image is asked for.
        #[command(subcommand)]
        verb: crate::command::netexec::AgnhostVerb,
    },
    /// Versions of this program and of the service it talks to
    Version,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  transom completion bash > /etc/bash_completion.d/transom")]
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// What can be done with objects of any kind.
///
/// The parameters are what listing and creating take in addition.
#[derive(Debug, Subcommand)]
pub(crate) enum ObjectVerb<L: Args = Nothing, C: Args = Nothing> {
    /// List them, all or some
    #[command(visible_alias = "ls")]
    List(ListArgs<L>),
    /// Describe one, or several
    #[command(visible_alias = "get", alias = "describe")]
    Show {
        /// Names, ids, or unambiguous beginnings of ids
        #[arg(required = true, value_name = "REF")]
        references: Vec<String>,
    },
    /// Make one, or several, from a file
    #[command(visible_alias = "add")]
    Create(CreateArgs<C>),
    /// Change one: a modify request, or a load balancer's whole new document
    #[command(visible_alias = "update", alias = "edit")]
    Modify {
        /// Name, id, or unambiguous beginning of an id
        #[arg(value_name = "REF")]
        reference: String,
        /// JSON or YAML; - is standard input; several requests are sent in order
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Delete one, several or all
    #[command(visible_alias = "rm", alias = "remove")]
    Delete(DeleteArgs),
    /// Follow what happens to them, until Ctrl-C
    Watch,
}

/// No further options.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Nothing {}

/// Narrows a list to a network.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfNetwork {
    /// Only those on this network
    #[arg(long, value_name = "REF")]
    pub(crate) network: Option<String>,
}

/// Says on which network to make something.
#[derive(Args, Clone, Debug)]
pub(crate) struct OnNetwork {
    /// The network; without it the documents name theirs
    #[arg(long, value_name = "REF")]
    pub(crate) network: Option<String>,
}

/// Which objects to list.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs<L: Args> {
    /// Only those with exactly this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only those with these properties, as a JSON object such as '{"Flags":8}'
    #[arg(long, value_name = "JSON")]
    pub(crate) filter: Option<String>,
    /// More ways to narrow it down.
    #[command(flatten)]
    pub(crate) more: L,
}

/// What to make.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs<C: Args> {
    /// JSON or YAML; - is standard input; several documents make several objects, in order
    ///
    /// Documents are of schema 2 unless they say otherwise. Networks and endpoints that they refer to may be given by name.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// More options.
    #[command(flatten)]
    pub(crate) more: C,
}

/// What to delete.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// Names, ids, or unambiguous beginnings of ids
    #[arg(required_unless_present = "all", value_name = "REF")]
    pub(crate) references: Vec<String>,
    /// Every object of this kind
    #[arg(long, conflicts_with = "references")]
    pub(crate) all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// It is fine if one is not there
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
}

/// What can be done with namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceVerb {
    /// What can be done with objects of any kind.
    #[command(flatten)]
    Object(ObjectVerb),
    /// Put an endpoint into a namespace
    Attach(Membership),
    /// Take an endpoint out of a namespace
    Detach(Membership),
}

/// An endpoint and its namespace.
#[derive(Args, Clone, Debug)]
pub(crate) struct Membership {
    /// The namespace: name, id, or unambiguous beginning of an id
    #[arg(value_name = "NAMESPACE")]
    pub(crate) namespace: String,
    /// The endpoint: name, id, or unambiguous beginning of an id
    #[arg(value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
}

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// List the policies of an object, or of everything
    #[command(visible_alias = "ls")]
    List {
        /// Whose policies.
        #[command(flatten)]
        target: AnyTarget,
        /// Only of this type, such as ACL
        #[arg(long = "type", value_name = "TYPE")]
        policy_type: Option<String>,
    },
    /// Show the policies of an object in full
    #[command(visible_alias = "get", alias = "describe")]
    Show {
        /// Whose policies.
        #[command(flatten)]
        target: AnyTarget,
        /// Only of this type, such as ACL
        #[arg(long = "type", value_name = "TYPE")]
        policy_type: Option<String>,
    },
    /// Add policies to a network or endpoint
    #[command(visible_alias = "add")]
    Create {
        /// Whose policies.
        #[command(flatten)]
        target: Target,
        /// Policies as {"Type":…,"Settings":…}, JSON or YAML; - is standard input
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Replace policies of a network or endpoint (an Update request)
    #[command(visible_alias = "update", alias = "edit")]
    Modify {
        /// Whose policies.
        #[command(flatten)]
        target: Target,
        /// Policies as {"Type":…,"Settings":…}, JSON or YAML; - is standard input
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Take policies away from a network or endpoint
    #[command(visible_aliases = ["rm", "remove"])]
    Delete {
        /// Whose policies.
        #[command(flatten)]
        target: Target,
        /// Those in this file, which must be equal; - is standard input
        #[arg(short, long, value_name = "FILE", required_unless_present = "policy_type", conflicts_with = "policy_type")]
        file: Option<PathBuf>,
        /// All of this type, such as ACL
        #[arg(long = "type", value_name = "TYPE")]
        policy_type: Option<String>,
    },
    /// Follow which policies come and go, until Ctrl-C
    Watch {
        /// Whose policies.
        #[command(flatten)]
        target: AnyTarget,
    },
}

/// A network or an endpoint.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// The network: name, id, or unambiguous beginning of an id
    #[arg(long, value_name = "REF")]
    pub(crate) network: Option<String>,
    /// The endpoint: name, id, or unambiguous beginning of an id
    #[arg(long, value_name = "REF")]
    pub(crate) endpoint: Option<String>,
}

/// A network, an endpoint, a load balancer, or everything.
#[derive(Args, Clone, Debug)]
#[group(required = false, multiple = false)]
pub(crate) struct AnyTarget {
    /// Only this network: name, id, or unambiguous beginning of an id
    #[arg(long, value_name = "REF")]
    pub(crate) network: Option<String>,
    /// Only this endpoint: name, id, or unambiguous beginning of an id
    #[arg(long, value_name = "REF")]
    pub(crate) endpoint: Option<String>,
    /// Only this load balancer, as the policies that schema 1 shows
    #[arg(long, value_name = "REF", alias = "lb")]
    pub(crate) loadbalancer: Option<String>,
}

/// What hnsdiag can do.
#[derive(Debug, Subcommand)]
pub(crate) enum HnsdiagVerb {
    /// List objects
    #[command(after_help = "Examples:\n  transom hnsdiag list all\n  transom hnsdiag list endpoints -d")]
    List {
        /// Which objects
        #[arg(value_enum)]
        what: HnsdiagObjects,
        /// Everything about each object, as JSON of schema 1
        #[arg(short, long)]
        details: bool,
        /// Accepted because hnsdiag has it, as in -df
        #[arg(short = 'f', hide = true)]
        full: bool,
        /// Accepted because hnsdiag has it, as in -dfl
        #[arg(short = 'l', hide = true)]
        long: bool,
    },
    /// Delete objects by id
    Delete {
        /// Which objects
        #[arg(value_enum)]
        what: HnsdiagObjects,
        /// Ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// The objects that hnsdiag knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HnsdiagObjects {
    /// Networks.
    Networks,
    /// Endpoints.
    Endpoints,
    /// Namespaces.
    Namespaces,
    /// Load balancers.
    Loadbalancers,
    /// All of them.
    All,
}

/// What can be done with profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileVerb {
    /// List them
    #[command(visible_alias = "ls")]
    List,
    /// Describe one
    #[command(visible_alias = "get", alias = "describe")]
    Show {
        /// The name, such as ws2022
        name: String,
    },
}

const NETWORK_EXAMPLES: &str = "\
Examples:
  transom network list -o wide
  transom network create -f cbr0.yaml
  transom network show cbr0
  transom network modify cbr0 -f request.json
  transom network delete 3d5a2f0e

cbr0.yaml:
  Name: cbr0
  Type: L2Bridge
  Policies:
  - {Type: NetAdapterName, Settings: {NetworkAdapterName: Ethernet}}
  Ipams:
  - Subnets:
    - IpAddressPrefix: 10.244.3.0/24
      Routes: [{DestinationPrefix: 0.0.0.0/0, NextHop: 10.244.3.1}]

request.json:
  {\"RequestType\":\"Update\",\"ResourceType\":\"DNS\",
   \"Settings\":{\"ServerList\":[\"10.96.0.10\"]}}";

const ENDPOINT_EXAMPLES: &str = "\
Examples:
  transom endpoint list --network cbr0
  echo 'Name: pod1' | transom endpoint create --network cbr0 -f -
  transom endpoint show pod1
  transom endpoint delete pod1 pod2";

const NAMESPACE_EXAMPLES: &str = "\
Examples:
  echo {} | transom namespace create -f -
  transom namespace attach 77e1c2d4 pod1
  transom namespace show 77e1c2d4
  transom namespace detach 77e1c2d4 pod1";

const LOAD_BALANCER_EXAMPLES: &str = "\
Examples:
  transom loadbalancer create -f web.yaml
  transom loadbalancer modify 9c0e1f52 -f web.yaml
  transom loadbalancer list -o wide

web.yaml:
  HostComputeEndpoints: [pod1, pod2]
  FrontendVIPs: [10.96.0.20]
  PortMappings: [{Protocol: 6, ExternalPort: 80, InternalPort: 8080}]";

const ROUTE_EXAMPLES: &str = "\
Examples:
  transom route create -f route.yaml
  transom route list

route.yaml:
  HostComputeEndpoints: [pod1]
  Routes: [{DestinationPrefix: 10.1.0.0/16, NextHop: 10.244.3.1}]";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nouns_and_verbs_have_short_names() {
        for line in ["net ls", "networks list", "ep get x", "ns rm x --yes", "lb describe x", "routes ls", "policies ls --endpoint x"] {
            let words = std::iter::once("transom").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn half_a_command_is_refused() {
        for line in [
            "network",
            "network show",
            "network delete",
            "network delete --all x",
            "policy create -f x",
            "policy delete --network x",
            "cni install d --conf c",
        ] {
            let words = std::iter::once("transom").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn hnsdiag_flags_may_stand_together() {
        for flags in ["-d", "-df", "-dfl", "--details"] {
            let cli = Cli::try_parse_from(["transom", "hnsdiag", "list", "all", flags]).unwrap();
            assert!(matches!(cli.command, Command::Hnsdiag { verb: HnsdiagVerb::List { details: true, .. } }), "{flags}");
        }
    }
}
