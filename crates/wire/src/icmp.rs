//! ICMP and ICMPv6 that the switch itself sends: errors about a packet, and answers to echo requests.
//!
//! An error is a gift to the sender of the packet and a danger to everybody else, so RFC 1122 (3.2.2) and RFC 4443 (2.4)
//! say when to be silent: about errors, about packets to or from groups, and about fragments but the first.

use crate::compose::{self, IpHeader};
use crate::number::protocol;
use crate::{FlowId, Fragment, Frame, Headers, Ip, Kind, MacAddress, checksum};

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no route to the destination.
    NoRoute,
    /// There is a route, and nobody there.
    HostUnreachable,
    /// Nobody listens on the transport port.
    PortUnreachable,
    /// A rule forbids it.
    Prohibited,
    /// It has crossed as many routers as it may.
    HopLimit,
    /// It is larger than the way allows.
    TooLarge {
        /// The largest IP packet that would pass.
        mtu: u16,
    },
}

/// Type, code, and the four bytes that follow the checksum.
type Head = (u8, u8, u32);

impl Problem {
    /// How ICMP says it (RFC 792, RFC 1191, RFC 1812).
    const fn head4(self) -> Head {
        match self {
            Self::NoRoute => (3, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::PortUnreachable => (3, 3, 0),
            Self::TooLarge { mtu } => (3, 4, mtu as u32),
            Self::Prohibited => (3, 13, 0),
            Self::HopLimit => (11, 0, 0),
        }
    }

    /// How ICMPv6 says it (RFC 4443).
    const fn head6(self) -> Head {
        match self {
            Self::NoRoute => (1, 0, 0),
            Self::Prohibited => (1, 1, 0),
            Self::HostUnreachable => (1, 3, 0),
            Self::PortUnreachable => (1, 4, 0),
            Self::TooLarge { mtu } => (2, 0, mtu as u32),
            Self::HopLimit => (3, 0, 0),
        }
    }
}

/// The header of every message.
const HEADER: usize = 8;

/// The longest error: what every host of its family is able to receive.
const ERROR_MAX_V4: usize = 576;
const ERROR_MAX_V6: usize = 1280;

const HOP_LIMIT: u8 = 64;

/// "Internetwork control", as RFC 1812 (4.3.2.5) wants it for errors.
const CONTROL: u8 = 0xc0;

/// Makes `out` an error about a packet, sent by `from` (of the packet's family) from the Ethernet address `mac`. Whether
/// there may be one.
///
/// If the packet's transport checksum is still to be completed, the quoted piece shows it incomplete. Receivers do not
/// look at it, as a quoted piece need not have all that it covers.
#[must_use]
pub fn error(about: &[u8], headers: &Headers, problem: Problem, from: Ip, mac: MacAddress, out: &mut Frame) -> bool {
    let v4 = headers.id.source.is_v4();
    let Some(quoted) = about.get(usize::from(headers.l3)..headers.end as usize) else {
        return false;
    };
    if !may_be_told(about, headers) || from.is_v4() != v4 || !compose::answer_link(out, about, headers, mac) {
        return false;
    }
    let ((kind, code, rest), protocol, traffic_class, most) = match v4 {
        true => (problem.head4(), protocol::ICMP, CONTROL, ERROR_MAX_V4),
        false => (problem.head6(), protocol::ICMPV6, 0, ERROR_MAX_V6),
    };
    let ip = IpHeader { source: from, destination: headers.id.source, protocol, hop_limit: HOP_LIMIT, traffic_class };
    let quoted = &quoted[..quoted.len().min(most - ip.len() - HEADER)];
    if !ip.append(out, HEADER + quoted.len()) {
        return false;
    }
    let l4 = out.len();
    let [a, b, c, d] = rest.to_be_bytes();
    out.append(&[kind, code, 0, 0, a, b, c, d]);
    out.append(quoted);
    compose::finish_checksum(out, l4, 2, &ip);
    true
}

/// Whether an error about this packet may be sent at all.
fn may_be_told(frame: &[u8], headers: &Headers) -> bool {
    const REDIRECT: u8 = 137;
    let id = &headers.id;
    let nobody = |address: Ip| address == Ip::NONE || address == Ip::v4(0) || address.is_multicast();
    // A loopback or class E address is no sender's own either (RFC 1122, 3.2.2).
    let wrong_source = id.source.is_v4() && (id.source.v4_bits() >> 24 == 127 || id.source.v4_bits() >> 28 == 0xf);
    let redirect = id.protocol == protocol::ICMPV6 && frame.get(usize::from(headers.l4)) == Some(&REDIRECT);
    headers.kind == Kind::Ip
        && !matches!(headers.fragment, Fragment::Later { .. })
        && !headers.is_group()
        && !nobody(id.source)
        && !wrong_source
        && !id.destination.is_multicast()
        && !redirect
}

/// Makes `out` the answer to an echo request, sent by the address that was asked. Whether the packet is such a request.
#[must_use]
pub fn echo_reply(request: &[u8], headers: &Headers, out: &mut Frame) -> bool {
    let (asks, answers) = match headers.id.source.is_v4() {
        true => ((protocol::ICMP, 8), 0),
        false => ((protocol::ICMPV6, 128), 129),
    };
    let Some(message) = request.get(usize::from(headers.l4)..headers.end as usize).filter(|message| message.len() >= HEADER) else {
        return false;
    };
    let is_request = headers.fragment == Fragment::Whole && (headers.id.protocol, message[0]) == asks;
    if !is_request || !may_be_told(request, headers) || !compose::answer_link(out, request, headers, headers.destination_mac) {
        return false;
    }
    let FlowId { source, destination, protocol, .. } = headers.id.reverse();
    let ip = IpHeader { source, destination, protocol, hop_limit: HOP_LIMIT, traffic_class: 0 };
    if !ip.append(out, message.len()) {
        return false;
    }
    let l4 = out.len();
    out.append(message);
    out.bytes_mut()[l4] = answers;
    // By difference, so that what was damaged on the way here does not leave with a good checksum.
    let difference = checksum::difference(u16::from(message[0]) << 8, u16::from(answers) << 8);
    compose::adjust_checksum(out.bytes_mut(), l4 + 2, difference);
    true
}
