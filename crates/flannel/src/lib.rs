//! flannel's node agent: every node has a subnet for its pods, and knows the way to everybody else's.
//!
//! ```text
//!  Nodes ──► desired: own lease, peers' leases, complaints        pure
//!              │
//!              ▼
//!            agent: one round                                     what is wanted, what is there, the difference
//!              │
//!      ┌───────┴────────┐
//!      ▼                ▼
//!   backend::hns     backend::kernel                              documents of HNS; devices and routes of Linux
//! ```
//!
//! Nothing is remembered from one round to the next that could not be read again: a round computes what should be, looks at what is
//! there, and changes the difference. So a start, a restart, a lost network and a missed event are all the same.
//!
//! There are no threads, sockets or clusters here. Whoever runs an [`Agent`](agent::Agent) brings the Nodes, and publishes what the
//! agent wants to be known.

pub mod agent;
pub mod annotation;
pub mod backend;
pub mod desired;
pub mod interface;
pub mod lease;
pub mod net_conf;
pub mod publication;
pub mod subnet_file;
pub mod trouble;

use ipnet::IpNet;
use std::net::IpAddr;

/// The one prefix of a family among at most one of each.
pub fn prefix_like(prefixes: &[IpNet], v4: bool) -> Option<IpNet> {
    prefixes.iter().copied().find(|prefix| prefix.addr().is_ipv4() == v4)
}

/// The one address of a family among at most one of each.
pub fn address_like(addresses: &[IpAddr], v4: bool) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv4() == v4)
}

/// An address of a prefix, counted from its first: 1 is the gateway by flannel's convention.
pub fn nth(prefix: IpNet, number: u8) -> IpAddr {
    match prefix.network() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first).wrapping_add(number.into())).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first).wrapping_add(number.into())).into()),
    }
}
