//! `transom cni`: laying the plugins out for a runtime, calling one by name, and configurations for them.

mod check_config;
mod install;

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// What can be done with plugins.
#[derive(Debug, Subcommand)]
pub(crate) enum CniVerb {
    /// Lay all plugins out in a directory, under their names
    Install(install::InstallArgs),
    /// Say what is wrong with a network configuration, where, and what to write instead
    CheckConfig(check_config::CheckConfigArgs),
    /// Print a network configuration to begin with
    Sample {
        /// The plugin it is for
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(cni::sample::ALL.map(|(name, _)| name)))]
        name: String,
    },
    /// Call a plugin by name, as a runtime would: variables, configuration on standard input, answer on standard output
    Run {
        /// The name, such as host-local
        name: String,
    },
}

/// The footer of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  transom cni install /opt/cni/bin --conf 10-pods.conflist --conf-dir /etc/cni/net.d
  CNI_COMMAND=VERSION transom cni run host-local
  transom cni sample flannel > 10-pods.conflist
  transom cni check-config 10-pods.conflist --service-cidr 10.96.0.0/12 --profile ws2022

A link to or a copy of this program under the name of a plugin is that plugin.";

/// Does what the verb says.
pub(crate) fn run(output: &Output, verb: CniVerb) -> Result<(), Failure> {
    match verb {
        CniVerb::Install(args) => install::run(output, &args),
        CniVerb::CheckConfig(args) => check_config::run(output, &args),
        CniVerb::Sample { name } => sample(output, &name),
        CniVerb::Run { name } => run_plugin(&name),
    }
}

fn sample(output: &Output, name: &str) -> Result<(), Failure> {
    let text = cni::sample::find(name).ok_or_else(|| Failure::new(Exit::NotFound, format!("there is no sample {name:?}")))?;
    output.text(text)
}

fn run_plugin(name: &str) -> Result<(), Failure> {
    let registry = cni::registry();
    let Some(plugin) = registry.find(name) else {
        let names: Vec<&str> = registry.iter().map(cni::Plugin::name).collect();
        return Err(Failure::new(Exit::NotFound, format!("there is no plugin {name:?}")).remedy(format!("use one of {}", names.join(", "))));
    };
    match cni::process::run(plugin, &registry) {
        0 => Ok(()),
        // The plugin has told it on standard output, in its own way.
        _ => Err(Failure::told(Exit::Failed)),
    }
}
