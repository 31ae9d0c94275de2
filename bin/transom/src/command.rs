//! The commands: one file for each noun, and what they share.

pub(crate) mod agent;
#[cfg(unix)]
pub(crate) mod api;
pub(crate) mod cni;
#[cfg(target_os = "linux")]
pub(crate) mod container;
pub(crate) mod dns;
pub(crate) mod endpoint;
#[cfg(unix)]
pub(crate) mod fabric;
pub(crate) mod flanneld;
#[cfg(unix)]
pub(crate) mod hnsd;
pub(crate) mod hnsdiag;
pub(crate) mod kube_proxy;
#[cfg(target_os = "linux")]
pub(crate) mod lab;
pub(crate) mod load_balancer;
mod log;
pub(crate) mod namespace;
pub(crate) mod netexec;
pub(crate) mod network;
pub(crate) mod object;
pub(crate) mod policy;
pub(crate) mod profile;
pub(crate) mod resolve;
pub(crate) mod route;
pub(crate) mod version;
#[cfg(unix)]
pub(crate) mod vfp;
#[cfg(unix)]
pub(crate) mod vswitchd;
pub(crate) mod watch;

use clap::CommandFactory;
use hcn::Hcn;
use hcn::endpoint::Endpoint;
use hcn::load_balancer::LoadBalancer;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::route::SdnRoute;

use crate::cli::{Cli, Command, Global, NamespaceVerb};
use crate::connect::connect;
use crate::exit::Failure;
use crate::output::Output;

/// What every client command works with.
pub(crate) struct Context {
    /// The service.
    pub(crate) hcn: Box<dyn Hcn>,
    /// Where answers go.
    pub(crate) output: Output,
}

impl Context {
    fn new(global: &Global) -> Result<Self, Failure> {
        Ok(Self { hcn: connect(global)?, output: Output::new(global.output) })
    }
}

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let global = cli.global;
    let context = || Context::new(&global);
    match cli.command {
        Command::Network { verb } => object::run::<Network, _, _>(&context()?, verb),
        Command::Endpoint { verb } => object::run::<Endpoint, _, _>(&context()?, verb),
        Command::Namespace { verb: NamespaceVerb::Object(verb) } => object::run::<Namespace, _, _>(&context()?, verb),
        Command::Namespace { verb: NamespaceVerb::Attach(who) } => namespace::attach(&context()?, &who),
        Command::Namespace { verb: NamespaceVerb::Detach(who) } => namespace::detach(&context()?, &who),
        Command::Loadbalancer { verb } => object::run::<LoadBalancer, _, _>(&context()?, verb),
        Command::Route { verb } => object::run::<SdnRoute, _, _>(&context()?, verb),
        Command::Policy { verb } => policy::run(&context()?, verb),
        Command::Hnsdiag { verb } => hnsdiag::run(&context()?, verb),
        Command::Cni { verb } => cni::run(&Output::new(global.output), verb),
        Command::Profile { verb } => profile::run(&Output::new(global.output), verb),
        #[cfg(unix)]
        Command::Api { verb } => api::run(verb),
        #[cfg(unix)]
        Command::Hnsd(args) => hnsd::run(args, global.token_file),
        #[cfg(unix)]
        Command::Vswitchd(args) => vswitchd::run(args),
        Command::KubeProxy(args) => kube_proxy::run(*args, global),
        Command::Dns(args) => dns::run(*args),
        Command::Resolve(args) => resolve::run(&Output::new(global.output), &args),
        #[cfg(unix)]
        Command::Fabric(args) => fabric::run(&args),
        Command::Flanneld(args) => flanneld::run(*args, global),
        #[cfg(target_os = "linux")]
        Command::Lab { verb } => lab::run(&Output::new(global.output), verb),
        #[cfg(target_os = "linux")]
        Command::Container { verb: lab::ContainerVerb::Registry(args) } => lab::registry(&Output::new(global.output), &args),
        #[cfg(unix)]
        Command::Vfp { verb } => vfp::run(&Output::new(global.output), verb),
        Command::Netexec(args) => netexec::serve(args),
        Command::Agnhost { verb } => netexec::run(verb),
        Command::Version => version::run(&global),
        Command::Completion { shell } => completion(&Output::new(global.output), shell),
    }
}

fn completion(output: &Output, shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "transom", &mut script);
    output.text(&String::from_utf8_lossy(&script))
}
