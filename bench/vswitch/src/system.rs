//! What is measured: two pods with a switch between them, or two nodes with a switch each.

pub(crate) mod kernel;
pub(crate) mod nftables;
pub(crate) mod open_vswitch;
pub(crate) mod ours;
pub(crate) mod service;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use host::namespace::Namespace;

use crate::load;
use crate::process::Daemon;

/// The virtual network of overlays.
pub(crate) const VNI: u32 = 4096;

/// What an overlay leaves of an MTU of 1500.
pub(crate) const INNER_MTU: u16 = 1450;

/// How long a system may take until its pods reach each other.
const PATIENCE: Duration = Duration::from_secs(20);

/// How two pods stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// On one node.
    SameNode,
    /// On two nodes, with VXLAN between them.
    TwoNodes,
    /// On one node, the second behind a Service.
    Service,
}

impl Topology {
    /// Its name in tests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SameNode => "same node",
            Self::TwoNodes => "two nodes, VXLAN",
            Self::Service => "Service",
        }
    }
}

/// Two pods that reach each other. Dropping it ends the processes between them.
#[derive(Debug)]
pub(crate) struct System {
    /// Where clients run.
    pub(crate) client: Namespace,
    /// Where servers run.
    pub(crate) server: Namespace,
    /// The address of the second.
    pub(crate) address: Ipv4Addr,
    /// The namespaces of nodes whose `eth0` is an end of the wire between them.
    pub(crate) nodes: Vec<String>,
    /// The processes between the pods.
    pub(crate) daemons: Vec<Daemon>,
}

impl System {
    /// The processes between the pods, by number.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.daemons.iter().map(Daemon::id).collect()
    }

    /// The same, as soon as its pods reach each other.
    pub(crate) fn connected(self) -> Result<Self, String> {
        self.wait_until_connected().map(|()| self)
    }

    /// Waits until the pods reach each other.
    fn wait_until_connected(&self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            match load::try_connection(self) {
                Err(error) if begin.elapsed() > PATIENCE => return Err(format!("the pods do not reach each other: {error}")),
                Err(_) => thread::sleep(Duration::from_millis(100)),
                Ok(()) => return Ok(()),
            }
        }
    }
}

/// Waits until something is there.
fn wait_for(what: &str, is_there: impl Fn() -> bool) -> Result<(), String> {
    let begin = Instant::now();
    while !is_there() {
        if begin.elapsed() > PATIENCE {
            return Err(format!("{what} does not appear"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("cannot make {}: {error}", path.display()))
}
