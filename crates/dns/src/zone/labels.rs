//! Names as labels, and addresses as labels.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::Name;

/// The labels of a name below a domain, in small letters: names are the same whatever letters they are written in.
pub(super) struct Labels(Vec<String>);

impl Labels {
    /// None if the name is not below the domain.
    pub(super) fn below(domain: &Name, name: &Name) -> Option<Self> {
        if !domain.zone_of(name) {
            return None;
        }
        let count = name.iter().count().checked_sub(domain.iter().count())?;
        Some(Self(name.iter().take(count).map(|label| String::from_utf8_lossy(label).to_ascii_lowercase()).collect()))
    }

    /// The label next to the domain first.
    pub(super) fn last_first(&self) -> Vec<&str> {
        self.0.iter().rev().map(String::as_str).collect()
    }
}

/// An address as one label: `10-0-0-1`, `fd00--1`.
pub(super) fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// The address that a label stands for.
pub(super) fn dashed_address(label: &str) -> Option<IpAddr> {
    let v4 = || label.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    let v6 = || label.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let is_plain = label.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_plain { v4().or_else(v6) } else { None }
}

/// The address whose reverse name this is. Half of a name or an unusual spelling is none.
pub(super) fn reverse_address(name: &Name) -> Option<IpAddr> {
    let address = name.parse_arpa_name().ok()?.addr();
    (Name::from(address) == *name).then_some(address)
}
