//! A Service in front of the second pod, among many others.

use std::net::Ipv4Addr;

use crate::generator;
use crate::load::STREAM_PORT;

/// How many other Services there are, with two backends each.
pub(crate) const OTHERS: usize = 2000;

/// The virtual address of the Service that is measured.
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// A port at a virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frontend {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
}

/// The ports that tests use; the server has the same.
pub(crate) fn frontends() -> Vec<Frontend> {
    let ports = std::iter::once(STREAM_PORT).chain(generator::ports());
    ports.map(|port| Frontend { address: VIP, port }).collect()
}

/// One of the others.
pub(crate) fn other_frontend(number: usize) -> Frontend {
    let [high, low] = (number as u16).to_be_bytes();
    Frontend { address: Ipv4Addr::new(10, 97, high, low), port: 80 }
}
