//! The program by which the kernel leaves frames out (classic BPF).
//!
//! Jumps in such a program reach 255 instructions forward. So each address is a block of its own that ends by leaving the
//! frame out or by running into the next block, and only the step from one address family to the other is a far jump.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::sock_filter;
use wire::MacAddress;
use wire::number::{ether_type, protocol};

use super::{LeftOut, Share};

/// Longer than any frame: the whole of it is taken.
const WHOLE: u32 = 0x4_0000;
const NOTHING: u32 = 0;

/// Where to look for what the kernel knows of a frame besides its bytes, and there: whether a VLAN tag was taken out.
const VLAN_TAG_PRESENT: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
/// Its number with its priority, and its type.
const VLAN_TAG: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG) as u32;
const VLAN_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TPID) as u32;
/// The bits of a tag that are the VLAN's number.
const VLAN_NUMBER: u32 = 0x0fff;

// Where things are in a frame without a tag.
const SOURCE_MAC: u32 = 6;
const ETHER_TYPE: u32 = 12;
const IP: u32 = 14;

const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const LOAD_IPV4_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// The program that leaves these frames out and takes all others.
pub(super) fn program(share: Share, left_out: &LeftOut) -> Vec<sock_filter> {
    let mut program = of_share(share);
    for source in &left_out.sources {
        program.extend(from(*source));
    }
    // Behind a tag everything is elsewhere, and no socket of ours gets it.
    program.extend([step(LOAD_WORD, VLAN_TAG_PRESENT), test(IF_EQUAL, 0, 1, 0), step(RETURN, WHOLE)]);
    let v4: Vec<_> = left_out.datagrams.iter().filter_map(v4_block).flatten().collect();
    let v6: Vec<_> = left_out.datagrams.iter().filter_map(v6_block).flatten().collect();
    program.extend(family(ether_type::IPV4, &UDP_OVER_IPV4, v4));
    program.extend(family(ether_type::IPV6, &UDP_OVER_IPV6, v6));
    program.push(step(RETURN, WHOLE));
    program
}

/// Leaves out what is not of a share of the wire.
fn of_share(share: Share) -> Vec<sock_filter> {
    match share {
        Share::Whole => Vec::new(),
        Share::Untagged => vec![
            step(LOAD_WORD, VLAN_TAG_PRESENT),
            test(IF_EQUAL, 0, 3, 0),
            step(LOAD_WORD, VLAN_TAG),
            test(IF_ANY_BIT, VLAN_NUMBER, 0, 1),
            step(RETURN, NOTHING),
        ],
        Share::Vlan(id) => vec![
            step(LOAD_WORD, VLAN_TAG_PRESENT),
            test(IF_EQUAL, 0, 5, 0),
            step(LOAD_WORD, VLAN_TYPE),
            test(IF_EQUAL, u32::from(ether_type::VLAN), 0, 3),
            step(LOAD_WORD, VLAN_TAG),
            step(AND, VLAN_NUMBER),
            test(IF_EQUAL, u32::from(id), 1, 0),
            step(RETURN, NOTHING),
        ],
    }
}

/// Takes everything that is no whole UDP datagram over IPv4.
const UDP_OVER_IPV4: [sock_filter; 6] = [
    step(LOAD_BYTE, IP + 9),
    test(IF_EQUAL, protocol::UDP as u32, 1, 0),
    step(RETURN, WHOLE),
    step(LOAD_HALF, IP + 6),
    // More fragments follow, or it is not the first.
    test(IF_ANY_BIT, 0x3fff, 0, 1),
    step(RETURN, WHOLE),
];

/// Takes everything that is no UDP datagram over IPv6; a fragment has another header first.
const UDP_OVER_IPV6: [sock_filter; 3] = [step(LOAD_BYTE, IP + 6), test(IF_EQUAL, protocol::UDP as u32, 1, 0), step(RETURN, WHOLE)];

/// The part for frames of one Ethernet type; others pass over it.
fn family(kind: u16, guard: &[sock_filter], blocks: Vec<sock_filter>) -> Vec<sock_filter> {
    let over = guard.len() + blocks.len();
    let mut part = vec![step(LOAD_HALF, ETHER_TYPE), test(IF_EQUAL, u32::from(kind), 1, 0), step(JUMP, over as u32)];
    part.extend(guard);
    part.extend(blocks);
    part
}

fn v4_block(datagram: &SocketAddr) -> Option<Vec<sock_filter>> {
    let SocketAddr::V4(datagram) = datagram else {
        return None;
    };
    let address = Ipv4Addr::to_bits(*datagram.ip());
    Some(vec![
        step(LOAD_WORD, IP + 16),
        test(IF_EQUAL, address, 0, 4),
        step(LOAD_IPV4_LENGTH, IP),
        step(LOAD_HALF_BEHIND, IP + 2),
        test(IF_EQUAL, u32::from(datagram.port()), 0, 1),
        step(RETURN, NOTHING),
    ])
}

fn v6_block(datagram: &SocketAddr) -> Option<Vec<sock_filter>> {
    let SocketAddr::V6(datagram) = datagram else {
        return None;
    };
    let mut block = Vec::with_capacity(11);
    let address = Ipv6Addr::to_bits(*datagram.ip());
    for word in 0..4u8 {
        let value = (address >> (96 - 32 * u32::from(word))) as u32;
        block.push(step(LOAD_WORD, IP + 24 + 4 * u32::from(word)));
        block.push(test(IF_EQUAL, value, 0, 9 - 2 * word));
    }
    block.push(step(LOAD_HALF, IP + 40 + 2));
    block.push(test(IF_EQUAL, u32::from(datagram.port()), 0, 1));
    block.push(step(RETURN, NOTHING));
    Some(block)
}

fn from(MacAddress([a, b, c, d, e, f]): MacAddress) -> [sock_filter; 5] {
    [
        step(LOAD_WORD, SOURCE_MAC),
        test(IF_EQUAL, u32::from_be_bytes([a, b, c, d]), 0, 3),
        step(LOAD_HALF, SOURCE_MAC + 4),
        test(IF_EQUAL, u32::from(u16::from_be_bytes([e, f])), 0, 1),
        step(RETURN, NOTHING),
    ]
}

const fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// A condition, and how many instructions to leave out if it holds and if it does not.
const fn test(code: u32, k: u32, holds: u8, fails: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: holds, jf: fails, k }
}

#[cfg(test)]
mod tests;
