//! Running a stand-in for the fabric of a cloud.

use std::path::PathBuf;

use clap::Args;
use node::fabric::Config;

use crate::exit::{Exit, Failure};

/// Run a stand-in for the fabric that L2Tunnel networks talk to
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FabricArgs {
    /// Its links, routes and rules, in YAML or JSON
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What to log: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", env = "TRANSOM_LOG", default_value = "info")]
    pub(crate) log_level: String,
}

const EXAMPLES: &str = "\
A file looks like this; addresses are those of a node and its pods, and a node's hardware address is learned:

  links:
    - {interface: node1, addresses: [10.0.0.4/32, 10.0.1.0/24]}
    - {interface: node2, addresses: [10.0.0.5/32, 10.0.2.0/24]}
    - {interface: router, addresses: [10.0.0.1/32]}
  routes:
    - {prefix: 0.0.0.0/0, link: router}
  rules:
    - {name: no-telnet, action: Block, priority: 100, protocols: [6], ports: [\"23\"]}

Example:
  transom fabric -f fabric.yaml";

/// Runs the fabric until it is told to stop.
pub(crate) fn run(args: &FabricArgs) -> Result<(), Failure> {
    super::log::start(&args.log_level)?;
    let path = args.file.display();
    let text = std::fs::read_to_string(&args.file).map_err(|error| Failure::new(Exit::Usage, format!("cannot read {path}: {error}")))?;
    let config: Config = serde_norway::from_str(&text).map_err(|error| Failure::new(Exit::Usage, format!("{path}: {error}")))?;
    config.check().map_err(|error| Failure::new(Exit::Usage, format!("{path}: {error}")))?;
    node::fabric::run(config).map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}
