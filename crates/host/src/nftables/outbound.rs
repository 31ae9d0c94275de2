//! What leaves a network of many nodes gets the address of the node it leaves by.
//!
//! Other than the tables of a switch this one stays when its maker ends: connections that pods begin meanwhile need it as well.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::batch::Family;
use super::error::NftError;
use super::expression::{Side, Steps};
use super::table::{Chain, Table};

const POSTROUTING: u32 = 4;
const SOURCE_PRIORITY: i32 = 100;

/// A part of a network that is on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// What is on this node.
    pub subnet: IpNet,
    /// The whole network, within which sources stay as they are.
    pub network: IpNet,
}

impl Outbound {
    /// Makes these and no others be translated, by the table of this name after `transom-`, in the calling thread's namespace.
    pub fn install(name: &str, all: &[Self]) -> Result<(), NftError> {
        let name = format!("transom-{name}");
        if all.is_empty() {
            return Table::remove(Family::Inet, &name);
        }
        let chain = Chain { name: "postrouting", kind: "nat", hook: POSTROUTING, priority: SOURCE_PRIORITY, device: None, drops: false };
        Table::leave(Family::Inet, &name, &[chain], &[all.iter().map(Self::rule).collect()])
    }

    fn rule(&self) -> Steps {
        let groups: IpNet = match self.network {
            IpNet::V4(_) => Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4).into(),
            IpNet::V6(_) => Ipv6Net::new_assert(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8).into(),
        };
        Steps::new()
            .family_of(self.network.addr())
            .within(Side::Source, self.subnet)
            .outside(Side::Destination, self.network)
            .outside(Side::Destination, groups)
            .masquerade()
    }
}
