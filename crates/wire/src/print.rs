//! Frames for people to read.
//!
//! `{}` is one line, with a bar between the headers; `{:#}` is one line for each header. Anything can be printed: of a frame
//! that cannot be read, as much as can be, and why it ends there.

use std::fmt::{self, Arguments, Formatter};

use crate::arp::{Arp, Operation};
use crate::fragment::Fragmentation;
use crate::geneve::{self, Geneve};
use crate::number::{ether_type, protocol};
use crate::stt::{self, Segment, Stt};
use crate::vxlan::{self, Vxlan};
use crate::{Embedded, Fragment, Headers, Ip, Kind, MacAddress, Malformed, neighbour};

/// A frame that prints itself.
///
/// ```
/// let mut frame = wire::Frame::default();
/// wire::arp::request(wire::Ip::v4(1), wire::MacAddress::default(), wire::Ip::v4(2), &mut frame);
/// let expected = "00-00-00-00-00-00 > FF-FF-FF-FF-FF-FF | ARP who has 0.0.0.2, tell 0.0.0.1";
/// assert_eq!(wire::Printed(frame.bytes()).to_string(), expected);
/// ```
#[derive(Clone, Copy)]
pub struct Printed<'a>(pub &'a [u8]);

/// How many frames inside one another are printed.
const DEPTH_MAX: usize = 3;

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Printer { f, headers: 0 }.frame(self.0, DEPTH_MAX)
    }
}

impl fmt::Debug for Printed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Puts between two headers what belongs there.
struct Printer<'a, 'b> {
    f: &'a mut Formatter<'b>,
    /// How many were printed.
    headers: usize,
}

impl Printer<'_, '_> {
    fn header(&mut self, text: Arguments<'_>) -> fmt::Result {
        match (self.headers, self.f.alternate()) {
            (0, _) => {}
            (_, false) => self.f.write_str(" | ")?,
            (depth, true) => write!(self.f, "\n{:width$}", "", width = 2 * depth)?,
        }
        self.headers += 1;
        self.f.write_fmt(text)
    }

    fn frame(&mut self, bytes: &[u8], depth: usize) -> fmt::Result {
        let Some(link) = bytes.first_chunk::<14>() else {
            return self.header(format_args!("{} bytes, too short for a frame", bytes.len()));
        };
        let mac = |at: usize| MacAddress(*link[at..].first_chunk().unwrap_or(&[0; 6]));
        let headers = Headers::parse(bytes);
        match headers.as_ref().ok().and_then(|headers| headers.vlan) {
            Some(vlan) => self.header(format_args!("{} > {} vlan {vlan}", mac(6), mac(0)))?,
            None => self.header(format_args!("{} > {}", mac(6), mac(0)))?,
        }
        match headers {
            Ok(headers) => self.content(bytes, &headers, depth),
            Err(why) => self.broken(bytes, why),
        }
    }

    /// The addresses, where an IP header should be, and what is wrong.
    fn broken(&mut self, bytes: &[u8], why: Malformed) -> fmt::Result {
        let packet = &bytes[14..];
        match (u16::from_be_bytes([bytes[12], bytes[13]]), v4_addresses(packet), v6_addresses(packet)) {
            (ether_type::IPV4, Some((source, destination)), _) | (ether_type::IPV6, _, Some((source, destination))) => {
                self.header(format_args!("{source} > {destination}"))?;
            }
            _ => {}
        }
        self.header(format_args!("broken: {why}, {} bytes", bytes.len()))
    }

    fn content(&mut self, bytes: &[u8], headers: &Headers, depth: usize) -> fmt::Result {
        match headers.ether_type {
            ether_type::ARP => self.arp(bytes, headers),
            ether_type::IPV4 | ether_type::IPV6 => self.ip(bytes, headers, depth),
            other => self.header(format_args!("type {other:04x}, {} bytes", bytes.len() - usize::from(headers.l3))),
        }
    }

    fn arp(&mut self, bytes: &[u8], headers: &Headers) -> fmt::Result {
        match Arp::parse(bytes, headers) {
            Some(Arp { operation: Operation::Request, sender, target, .. }) if sender == target => {
                self.header(format_args!("ARP {sender} announces itself"))
            }
            Some(Arp { operation: Operation::Request, sender, target, .. }) => {
                self.header(format_args!("ARP who has {target}, tell {sender}"))
            }
            Some(Arp { operation: Operation::Reply, sender, sender_mac, .. }) => {
                self.header(format_args!("ARP {sender} is at {sender_mac}"))
            }
            None => self.header(format_args!("ARP of another kind")),
        }
    }

    fn ip(&mut self, bytes: &[u8], headers: &Headers, depth: usize) -> fmt::Result {
        let packet = &bytes[usize::from(headers.l3)..headers.end as usize];
        let addresses = if headers.ether_type == ether_type::IPV4 { v4_addresses(packet) } else { v6_addresses(packet) };
        let (source, destination) = addresses.unwrap_or((headers.id.source, headers.id.destination));
        let piece = Piece(headers.fragment, Fragmentation::of(bytes, headers).unwrap_or_default());
        self.header(format_args!("{source} > {destination} ttl {}{piece}", headers.hop_limit))?;
        let l4 = &bytes[usize::from(headers.l4)..headers.end as usize];
        let length = headers.end as usize - usize::from(headers.payload);
        if matches!(headers.fragment, Fragment::Later { .. }) {
            return self.header(format_args!("{} length {length}", Protocol(headers.id.protocol)));
        }
        match (headers.kind, headers.id.protocol) {
            (Kind::Neighbour { request }, _) => self.neighbour(bytes, headers, request),
            (Kind::IcmpError, _) => self.icmp_error(bytes, headers, l4),
            (_, protocol::ICMP | protocol::ICMPV6) => self.icmp_query(headers, l4, length),
            (_, protocol::TCP) if headers.id.destination_port == stt::PORT => self.stt(headers, l4, length, depth),
            (_, protocol::TCP) => self.tcp(headers, l4, length),
            (_, protocol::UDP | protocol::SCTP) => self.ports(bytes, headers, length, depth),
            (_, other) => self.header(format_args!("{} length {length}", Protocol(other))),
        }
    }

    fn tcp(&mut self, headers: &Headers, l4: &[u8], length: usize) -> fmt::Result {
        let long = |at: usize| l4.get(at..).and_then(|bytes| bytes.first_chunk()).copied().map_or(0, u32::from_be_bytes);
        let (from, to, flags) = (headers.id.source_port, headers.id.destination_port, TcpFlags(headers.tcp_flags));
        self.header(format_args!("TCP {from} > {to} {flags} seq {} ack {} win {} length {length}", long(4), long(8), long(12) & 0xffff))
    }

    fn ports(&mut self, bytes: &[u8], headers: &Headers, length: usize, depth: usize) -> fmt::Result {
        let (from, to) = (headers.id.source_port, headers.id.destination_port);
        self.header(format_args!("{} {from} > {to} length {length}", Protocol(headers.id.protocol)))?;
        let payload = &bytes[usize::from(headers.payload)..headers.end as usize];
        let (header, inner) = match (headers.id.protocol, to) {
            (protocol::UDP, vxlan::PORT | vxlan::LINUX_PORT) => match Vxlan::parse(payload) {
                Ok(header) => (self.header(format_args!("{header}")), &payload[vxlan::LENGTH..]),
                Err(why) => return self.header(format_args!("broken VXLAN: {why}")),
            },
            (protocol::UDP, geneve::PORT) => match Geneve::parse(payload) {
                Ok(header) => (self.header(format_args!("{header}")), &payload[header.len()..]),
                Err(why) => return self.header(format_args!("broken Geneve: {why}")),
            },
            _ => return Ok(()),
        };
        header?;
        self.inner(inner, depth)
    }

    /// A segment to the port of STT, which may as well be one of a real connection.
    fn stt(&mut self, headers: &Headers, l4: &[u8], payload: usize, depth: usize) -> fmt::Result {
        let Ok((segment, length)) = Segment::parse(l4) else {
            return self.tcp(headers, l4, payload);
        };
        let Segment { source_port, destination_port, frame_length, offset, id } = segment;
        self.header(format_args!("STT {source_port} > {destination_port} id {id} at {offset} of {frame_length}"))?;
        match Stt::parse(&l4[length..]) {
            Ok(header) if offset == 0 => {
                self.header(format_args!("{header}"))?;
                self.inner(&l4[length + stt::LENGTH..], depth)
            }
            _ => Ok(()),
        }
    }

    fn inner(&mut self, bytes: &[u8], depth: usize) -> fmt::Result {
        match depth {
            0 => self.header(format_args!("more inside, {} bytes", bytes.len())),
            depth => self.frame(bytes, depth - 1),
        }
    }

    fn neighbour(&mut self, bytes: &[u8], headers: &Headers, request: bool) -> fmt::Result {
        let target = bytes.get(usize::from(headers.l4) + 8..).and_then(|bytes| bytes.first_chunk()).copied();
        let target = Ip(target.map_or(0, u128::from_be_bytes));
        match (request, neighbour::link_address(bytes, headers)) {
            (true, Some(mac)) => self.header(format_args!("ICMPv6 who has {target}, tell {mac}")),
            (true, None) => self.header(format_args!("ICMPv6 who has {target}")),
            (false, Some(mac)) => self.header(format_args!("ICMPv6 {target} is at {mac}")),
            (false, None) => self.header(format_args!("ICMPv6 {target} is there")),
        }
    }

    fn icmp_error(&mut self, bytes: &[u8], headers: &Headers, l4: &[u8]) -> fmt::Result {
        let v4 = headers.ether_type == ether_type::IPV4;
        let error = IcmpError { v4, header: l4.first_chunk().copied().unwrap_or_default() };
        self.header(format_args!("{} {error}", Protocol(headers.id.protocol)))?;
        match Embedded::parse(bytes, headers) {
            Ok(Embedded { id, .. }) => {
                let (from, to) = (End(id.source, id.source_port), End(id.destination, id.destination_port));
                self.header(format_args!("about {} {from} > {to}", Protocol(id.protocol)))
            }
            Err(why) => self.header(format_args!("about something broken: {why}")),
        }
    }

    fn icmp_query(&mut self, headers: &Headers, l4: &[u8], length: usize) -> fmt::Result {
        let (kind, name) = (l4.first().copied().unwrap_or(0), Protocol(headers.id.protocol));
        let what = match (headers.id.protocol, kind) {
            (protocol::ICMP, 8) | (protocol::ICMPV6, 128) => "echo request",
            (protocol::ICMP, 0) | (protocol::ICMPV6, 129) => "echo reply",
            (protocol::ICMPV6, 133) => return self.header(format_args!("{name} router solicitation")),
            (protocol::ICMPV6, 134) => return self.header(format_args!("{name} router advertisement")),
            _ => return self.header(format_args!("{name} type {kind} length {length}")),
        };
        let sequence = l4.get(6..8).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        self.header(format_args!("{name} {what} id {} seq {sequence} length {length}", headers.id.source_port))
    }
}

fn v4_addresses(packet: &[u8]) -> Option<(Ip, Ip)> {
    let address = |at: usize| Some(Ip::v4(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    Some((address(12)?, address(16)?))
}

fn v6_addresses(packet: &[u8]) -> Option<(Ip, Ip)> {
    let address = |at: usize| Some(Ip(u128::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    Some((address(8)?, address(24)?))
}

/// The name of what an IP packet carries.
struct Protocol(u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            protocol::ICMP => f.write_str("ICMP"),
            protocol::TCP => f.write_str("TCP"),
            protocol::UDP => f.write_str("UDP"),
            protocol::ICMPV6 => f.write_str("ICMPv6"),
            protocol::SCTP => f.write_str("SCTP"),
            other => write!(f, "protocol {other}"),
        }
    }
}

/// An address with a transport port.
struct End(Ip, u16);

impl fmt::Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.is_v4() {
            true => write!(f, "{}:{}", self.0, self.1),
            false => write!(f, "[{}]:{}", self.0, self.1),
        }
    }
}

/// Flags of TCP in the letters that everybody uses; a dot stands for the acknowledgement.
struct TcpFlags(u8);

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const LETTERS: [&str; 8] = ["F", "S", "R", "P", ".", "U", "E", "W"];
        f.write_str("[")?;
        let set = LETTERS.iter().enumerate().filter(|(bit, _)| self.0 & 1 << bit != 0);
        for (_, letter) in set {
            f.write_str(letter)?;
        }
        f.write_str("]")
    }
}

/// Whether the packet is a piece, and which.
struct Piece(Fragment, Fragmentation);

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fragment::Whole => Ok(()),
            Fragment::First { id } => write!(f, " fragment {id} at 0 of more"),
            Fragment::Later { id, last: false } => write!(f, " fragment {id} at {} of more", self.1.offset),
            Fragment::Later { id, last: true } => write!(f, " fragment {id} at {} and last", self.1.offset),
        }
    }
}

/// What an ICMP error says, by its first eight bytes.
struct IcmpError {
    v4: bool,
    header: [u8; 8],
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [kind, code, _, _, a, b, c, d] = self.header;
        f.write_str(match (self.v4, kind, code) {
            (true, 3, 0) | (false, 1, 0) => "no route",
            (true, 3, 1) | (false, 1, 3) => "host unreachable",
            (true, 3, 3) | (false, 1, 4) => "port unreachable",
            (true, 3, 13) | (false, 1, 1) => "prohibited",
            (true, 11, 0) | (false, 3, 0) => "hop limit exceeded",
            (true, 3, 4) => return write!(f, "too large, mtu {}", u16::from_be_bytes([c, d])),
            (false, 2, _) => return write!(f, "too large, mtu {}", u32::from_be_bytes([a, b, c, d])),
            _ => return write!(f, "error {kind}/{code}"),
        })
    }
}
