//! Arithmetic on ranges of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// How long the prefix of a node's pods is, by family.
const NODE_V4: u8 = 24;
const NODE_V6: u8 = 64;

/// The address with a number in a range, with the range's length.
pub(super) fn host(range: IpNet, number: u128) -> IpNet {
    match range {
        IpNet::V4(range) => {
            let address = Ipv4Addr::from(u32::from(range.network()).wrapping_add(number as u32));
            Ipv4Net::new_assert(address, range.prefix_len()).into()
        }
        IpNet::V6(range) => {
            let address = Ipv6Addr::from(u128::from(range.network()).wrapping_add(number));
            Ipv6Net::new_assert(address, range.prefix_len()).into()
        }
    }
}

/// How many addresses a range has room for beyond its first one.
pub(super) fn room(range: IpNet) -> u128 {
    let bits = u32::from(range.max_prefix_len() - range.prefix_len());
    1_u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1)
}

/// The part of a range that the node with a number gets. The first part is nobody's, so that numbers are easy to read.
pub(super) fn part(range: IpNet, number: u128) -> Option<IpNet> {
    let length = part_length(range);
    if number + 1 >= parts(range) {
        return None;
    }
    let step = 1_u128 << (range.max_prefix_len() - length);
    let first = host(range, (number + 1) * step).addr();
    match first {
        IpAddr::V4(address) => Ipv4Net::new(address, length).ok().map(IpNet::from),
        IpAddr::V6(address) => Ipv6Net::new(address, length).ok().map(IpNet::from),
    }
}

/// How many parts a range has.
pub(super) fn parts(range: IpNet) -> u128 {
    part_length(range).checked_sub(range.prefix_len()).and_then(|bits| 1_u128.checked_shl(bits.into())).unwrap_or(0)
}

fn part_length(range: IpNet) -> u8 {
    if matches!(range, IpNet::V4(_)) { NODE_V4 } else { NODE_V6 }
}

/// Whether two ranges have an address in common.
pub(super) fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

/// The fewest ranges that have every address of a family but those of some ranges.
pub(crate) fn all_but(ranges: &[IpNet], v6: bool) -> Vec<IpNet> {
    let all: IpNet = if v6 { Ipv6Net::default().into() } else { Ipv4Net::default().into() };
    without(all, ranges)
}

fn without(range: IpNet, taken: &[IpNet]) -> Vec<IpNet> {
    if taken.iter().any(|other| other.contains(&range)) {
        return Vec::new();
    }
    if !taken.iter().any(|other| range.contains(other)) {
        return vec![range];
    }
    // A range that contains another one is longer than one address, so that it has halves.
    let halves = range.subnets(range.prefix_len() + 1).into_iter().flatten();
    halves.flat_map(|half| without(half, taken)).collect()
}
