//! Services of a cluster by the kernel: connections to a frontend are led to one of its backends.
//!
//! There is a table for each family, which stays when its maker ends, as connections go on to be made. What a connection costs
//! does not grow with the number of Services: who asks decides on one of three maps, which have a chain for each frontend.
//!
//! ```text
//! prerouting, output ─► services ─► sources-n   (may this one ask at all?)
//!                          │
//!                          ├─► for-node ───┐
//!                          ├─► for-pods ───┼─► refuse
//!                          └─► for-others ─┴─► [hidden-n ─►] pool-n ─► backend
//! postrouting ─► masquerade, if hidden or back to where it came from
//! ```
//!
//! Connections remember their backend by themselves: only the first packet of each comes here.

mod layout;
mod rules;

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::batch::{Connection, Family};
use super::error::NftError;
use super::expression::AddressFamily;
use super::table::Table;
use layout::Layout;

/// The name of both tables.
const TABLE: &str = "transom-services";

/// The tables' families.
const FAMILIES: [(AddressFamily, Family); 2] = [(AddressFamily::V4, Family::Ipv4), (AddressFamily::V6, Family::Ipv6)];

/// Everything that the tables do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// The addresses of pods. Their connections keep their source.
    pub pods: Vec<IpNet>,
    /// The backends, in groups that connections are spread over.
    pub pools: Vec<Pool>,
    /// Where clients connect to.
    pub frontends: Vec<Frontend>,
    /// Backends on this node, which may reach themselves.
    pub own_backends: Vec<IpAddr>,
}

/// Backends that connections are spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What people call it.
    pub name: String,
    /// Where connections are led, of one family. At least one.
    pub targets: Vec<SocketAddr>,
    /// Whether clients keep their backend.
    pub affinity: Option<Affinity>,
}

/// How clients keep their backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// Under which number it is remembered. Pools of one number share what they remember, as long as both have the backend.
    pub id: u32,
    /// For how many seconds after a client's last connection.
    pub seconds: u32,
}

/// Where clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// What people call it.
    pub name: String,
    /// The address; the unspecified one is every address of the node but those of its loopback.
    pub address: IpAddr,
    /// The IP protocol: 6 for TCP, 17 for UDP, 132 for SCTP.
    pub protocol: u8,
    /// The transport port.
    pub port: u16,
    /// Where pods are led.
    pub for_pods: Way,
    /// Where programs of the node are led.
    pub for_node: Way,
    /// Where everybody else is led.
    pub for_others: Way,
    /// Who may connect; everybody if empty. Others get no answer.
    pub source_ranges: Vec<IpNet>,
}

/// Where a connection is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nowhere, and the client is told so.
    Refused,
    /// To a backend.
    Pool {
        /// The position of the pool.
        index: usize,
        /// Whether the backend sees the node's address instead of the client's, so that answers come back by the node.
        is_hidden: bool,
    },
}

impl Services {
    /// Makes these and no others be served in the calling thread's namespace, at one instant for each family. What clients' affinity is to is kept.
    ///
    /// The kernel must forward packets for it to have an effect on others than the node itself (`ipv4.ip_forward`).
    pub fn install(&self) -> Result<(), NftError> {
        FAMILIES.iter().try_for_each(|&(addresses, family)| {
            let layout = Layout::of(self, addresses);
            // A table stays also when the last Service has gone: with it, connections that there are would lose their translation.
            match install(&layout, family) {
                Err(NftError::Unsupported { .. }) if layout.is_empty() => Ok(()),
                outcome => outcome,
            }
        })
    }

    /// Whether the tables have the chains that they would have by [`install`](Self::install), so that nobody took them away.
    pub fn are_installed(&self) -> Result<bool, NftError> {
        let mut connection = Connection::open()?;
        for (addresses, family) in FAMILIES {
            let there = connection.chains(family, TABLE)?;
            let layout = Layout::of(self, addresses);
            if there != layout.chains() && !(there.is_empty() && layout.is_empty()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the tables, if they are there. Where nothing else translates, connections that there are end with them.
    pub fn remove() -> Result<(), NftError> {
        FAMILIES.iter().try_for_each(|(_, family)| remove_from(*family))
    }
}

/// Replaces everything but what is remembered of clients. Where that cannot be, as in a table of another version, that is replaced as well.
fn install(layout: &Layout<'_>, family: Family) -> Result<(), NftError> {
    let mut connection = Connection::open()?;
    let operation = format!("make the nf_tables table {TABLE}");
    let there = connection.chains(family, TABLE)?;
    if !there.is_empty() && connection.commit(&layout.update(family, &there), &operation).is_ok() {
        return Ok(());
    }
    connection.commit(&layout.anew(family), &operation)
}

/// A kernel without a family has no table of it either.
fn remove_from(family: Family) -> Result<(), NftError> {
    match Table::remove(family, TABLE) {
        Err(NftError::Unsupported { .. }) => Ok(()),
        outcome => outcome,
    }
}
