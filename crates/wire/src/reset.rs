//! The TCP segment that refuses a connection (RFC 9293, 3.10.7.1).

use crate::compose::{self, IpHeader};
use crate::number::{protocol, tcp_flag};
use crate::{FlowId, Fragment, Frame, Headers, Kind};

const HEADER: usize = 20;
const HOP_LIMIT: u8 = 64;

/// Makes `out` the reset that answers a segment, as if its receiver had sent it. Whether there may be one: a reset is never
/// answered, nor is anything to a group.
#[must_use]
pub fn tcp_reset(segment: &[u8], headers: &Headers, out: &mut Frame) -> bool {
    let is_tcp = headers.kind == Kind::Ip && headers.id.protocol == protocol::TCP && headers.fragment == Fragment::Whole;
    let to_one = !headers.is_group() && !headers.id.destination.is_multicast();
    let Some(tcp) = segment.get(usize::from(headers.l4)..headers.end as usize).and_then(|tcp| tcp.first_chunk::<HEADER>()) else {
        return false;
    };
    if !is_tcp || !to_one || headers.tcp_flags & tcp_flag::RST != 0 || !compose::answer_link(out, segment, headers, headers.destination_mac)
    {
        return false;
    }
    let FlowId { source, destination, source_port, destination_port, protocol } = headers.id.reverse();
    let ip = IpHeader { source, destination, protocol, hop_limit: HOP_LIMIT, traffic_class: 0 };
    if !ip.append(out, HEADER) {
        return false;
    }
    let l4 = out.len();
    let (sequence, acknowledgement, flags) = numbers(tcp, headers);
    let mut reset = [0; HEADER];
    reset[..2].copy_from_slice(&source_port.to_be_bytes());
    reset[2..4].copy_from_slice(&destination_port.to_be_bytes());
    reset[4..8].copy_from_slice(&sequence.to_be_bytes());
    reset[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
    reset[12] = (HEADER as u8 / 4) << 4;
    reset[13] = flags;
    out.append(&reset);
    compose::finish_checksum(out, l4, 16, &ip);
    true
}

/// Sequence number, acknowledgement and flags, by which the sender of the segment believes that the answer is to it.
fn numbers(tcp: &[u8; HEADER], headers: &Headers) -> (u32, u32, u8) {
    let long = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    if headers.tcp_flags & tcp_flag::ACK != 0 {
        return (long(8), 0, tcp_flag::RST);
    }
    // The flags that open and close a connection count as a byte each.
    let flag = |flag: u8| u32::from(headers.tcp_flags & flag != 0);
    let length = headers.end - u32::from(headers.payload) + flag(tcp_flag::SYN) + flag(tcp_flag::FIN);
    (0, long(4).wrapping_add(length), tcp_flag::RST | tcp_flag::ACK)
}
