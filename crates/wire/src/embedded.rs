//! The packet inside an ICMP error: whose it was, and changing that in place.
//!
//! An error quotes the beginning of the packet it is about. Whoever changed the addresses of that packet on its way out
//! has to change them back in the quotation, or the sender will not know its own packet again.

use std::ops::Range;

use crate::compose::adjust_checksum;
use crate::fragment::{Extensions, OFFSET_V4, OFFSET_V6};
use crate::number::protocol;
use crate::{FlowId, Headers, Ip, Kind, Malformed, checksum};

/// A quoted packet in a frame. It may be cut off anywhere behind the first eight bytes of its transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Whose it is, as it was where the error was made. A later fragment has no ports.
    pub id: FlowId,
    /// Where its IP header starts in the frame.
    l3: u16,
    /// Where its transport header starts in the frame.
    l4: u16,
    /// Whether it has a transport header, which a later fragment has not.
    transport: bool,
}

/// What a transport header is quoted for at least (RFC 792).
const TRANSPORT_MIN: usize = 8;

/// How far into a transport header a checksum can be.
const TRANSPORT_REACH: usize = 18;

impl Embedded {
    /// Reads the packet inside the ICMP error that [`Headers::parse`] found.
    pub fn parse(frame: &[u8], headers: &Headers) -> Result<Self, Malformed> {
        let l3 = usize::from(headers.payload);
        let quoted = frame.get(l3..headers.end as usize).ok_or(Malformed::Truncated)?;
        if headers.kind != Kind::IcmpError {
            return Err(Malformed::TransportLength);
        }
        let (mut id, length, transport) = match headers.id.source.is_v4() {
            true => ipv4(quoted)?,
            false => ipv6(quoted)?,
        };
        if transport {
            let header = quoted.get(length..).and_then(|bytes| bytes.first_chunk::<TRANSPORT_MIN>()).ok_or(Malformed::Truncated)?;
            (id.source_port, id.destination_port) = ports(id.protocol, header);
        }
        let l4 = u16::try_from(l3 + length).map_err(|_| Malformed::HeaderLength)?;
        Ok(Self { id, l3: headers.payload, l4, transport })
    }

    /// Gives the quoted packet another identity and puts every checksum right: of the quoted IPv4 header, of the quoted
    /// transport header where it was quoted that far, and of the error. Only an identity of the same family fits; this
    /// says whether it did.
    ///
    /// The identifier of an ICMP query is the source port. The checksum of SCTP is left as it is, since it cannot be
    /// known without the whole packet.
    pub fn rewrite(&mut self, frame: &mut [u8], headers: &Headers, id: &FlowId) -> bool {
        let end = (usize::from(self.l4) + TRANSPORT_REACH).min(headers.end as usize);
        let (l3, l4) = (usize::from(self.l3), usize::from(self.l4));
        let least = l4 - l3 + if self.transport { TRANSPORT_MIN } else { 0 };
        let Some(quoted) = frame.get_mut(l3..end).filter(|quoted| quoted.len() >= least) else {
            return false;
        };
        let v4 = self.id.source.is_v4();
        if [id.source.is_v4(), id.destination.is_v4()] != [v4, v4] || id.protocol != self.id.protocol {
            return false;
        }
        let before = checksum::sum(quoted);
        let addresses = set_addresses(quoted, id);
        if self.transport {
            set_ports(&mut quoted[l4 - l3..], id, addresses);
        }
        let after = checksum::sum(quoted);
        adjust_checksum(frame, usize::from(headers.l4) + 2, checksum::difference(before, after));
        self.id = *id;
        true
    }
}

/// Whose a quoted packet is but for its ports, how long its headers are, and whether a transport header follows.
type Quoted = (FlowId, usize, bool);

fn ipv4(quoted: &[u8]) -> Result<Quoted, Malformed> {
    let header = quoted.first_chunk::<20>().ok_or(Malformed::Truncated)?;
    if header[0] >> 4 != 4 {
        return Err(Malformed::IpVersion);
    }
    let length = usize::from(header[0] & 15) * 4;
    if length < 20 || length > quoted.len() {
        return Err(Malformed::HeaderLength);
    }
    let address = |at: usize| Ip::v4(u32::from_be_bytes(*header[at..].first_chunk().unwrap_or(&[0; 4])));
    let later = u16::from_be_bytes([header[6], header[7]]) & OFFSET_V4 != 0;
    let id = FlowId { source: address(12), destination: address(16), protocol: header[9], ..FlowId::default() };
    Ok((id, length, !later))
}

fn ipv6(quoted: &[u8]) -> Result<Quoted, Malformed> {
    let header = quoted.first_chunk::<40>().ok_or(Malformed::Truncated)?;
    if header[0] >> 4 != 6 {
        return Err(Malformed::IpVersion);
    }
    let address = |at: usize| Ip(u128::from_be_bytes(*header[at..].first_chunk().unwrap_or(&[0; 16])));
    let Extensions { next: protocol, length, offset } = Extensions::walk(quoted, header[6])?;
    let id = FlowId { source: address(8), destination: address(24), protocol, ..FlowId::default() };
    match id.source.is_v4() || id.destination.is_v4() {
        true => Err(Malformed::SourceAddress),
        false => Ok((id, length, offset.is_none_or(|offset| offset & OFFSET_V6 == 0))),
    }
}

/// The ports that [`FlowId`] has for the start of a transport header.
fn ports(protocol: u8, header: &[u8; TRANSPORT_MIN]) -> (u16, u16) {
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    match protocol {
        protocol::TCP | protocol::UDP | protocol::SCTP => (word(0), word(2)),
        protocol if is_query(protocol, header[0]) => (word(4), word(4)),
        _ => (0, 0),
    }
}

/// Whether an ICMP message has an identifier.
const fn is_query(protocol: u8, kind: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(kind, 0 | 8 | 13..=18),
        protocol::ICMPV6 => matches!(kind, 128 | 129),
        _ => false,
    }
}

/// Writes the addresses into a quoted IP header, with its checksum if it has one. Answers by how much their sum changed.
fn set_addresses(quoted: &mut [u8], id: &FlowId) -> u16 {
    let (at, length) = if id.source.is_v4() { (12, 4) } else { (8, 16) };
    let field = &mut quoted[at..at + 2 * length];
    let old = checksum::sum(field);
    // The address is the last bytes of the number in either family.
    field[..length].copy_from_slice(&id.source.0.to_be_bytes()[16 - length..]);
    field[length..].copy_from_slice(&id.destination.0.to_be_bytes()[16 - length..]);
    let difference = checksum::difference(old, checksum::sum(field));
    if id.source.is_v4() {
        adjust_checksum(quoted, 10, difference);
    }
    difference
}

/// Writes the ports into a quoted transport header, with its checksum if it was quoted that far.
fn set_ports(header: &mut [u8], id: &FlowId, addresses: u16) {
    let before = checksum::sum(&header[..TRANSPORT_MIN]);
    match id.protocol {
        protocol::TCP | protocol::UDP | protocol::SCTP => {
            header[..2].copy_from_slice(&id.source_port.to_be_bytes());
            header[2..4].copy_from_slice(&id.destination_port.to_be_bytes());
        }
        protocol if is_query(protocol, header[0]) => header[4..6].copy_from_slice(&id.source_port.to_be_bytes()),
        _ => {}
    }
    let words = checksum::difference(before, checksum::sum(&header[..TRANSPORT_MIN]));
    match id.protocol {
        protocol::TCP => adjust_checksum(header, 16, checksum::add(words, addresses)),
        protocol::UDP => adjust_udp(header, checksum::add(words, addresses)),
        protocol::ICMP => adjust_checksum(header, 2, words),
        protocol::ICMPV6 => adjust_checksum(header, 2, checksum::add(words, addresses)),
        _ => {}
    }
}

/// In UDP zero stands for no checksum, and a checksum that comes out as zero is written in its other form.
fn adjust_udp(header: &mut [u8], difference: u16) {
    const FIELD: Range<usize> = 6..8;
    if header[FIELD] == [0, 0] {
        return;
    }
    adjust_checksum(header, FIELD.start, difference);
    if header[FIELD] == [0, 0] {
        header[FIELD].fill(0xff);
    }
}
