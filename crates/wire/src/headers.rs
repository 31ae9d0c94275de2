//! Reading a frame once: where its headers are and whose it is.

mod plain;

use std::fmt;

use crate::number::{ether_type, protocol};
use crate::{Ip, MacAddress, checksum};

/// Why a frame cannot be read, or must not be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// It ends before its headers do.
    Truncated,
    /// The version in the IP header is not the one announced.
    IpVersion,
    /// A header says that it is shorter than it can be.
    HeaderLength,
    /// The IP packet says that it is longer than the frame, or shorter than its own header.
    IpLength,
    /// The checksum of the IPv4 header is wrong.
    IpChecksum,
    /// More extension headers than anybody has use for.
    ExtensionHeaders,
    /// A length in the transport header contradicts the IP packet.
    TransportLength,
    /// The request to cut the frame, or to complete its checksum, does not fit the frame.
    Segmentation,
    /// A tunnel header that is not valid.
    Tunnel,
    /// A source address that nobody can have: multicast, broadcast, or Ethernet's group bit.
    SourceAddress,
    /// A later piece that would be written over the transport header of its first.
    Fragment,
}

impl Malformed {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Truncated => "the frame ends before its headers do",
            Self::IpVersion => "the IP version is not the one the frame announces",
            Self::HeaderLength => "a header is shorter than its kind can be",
            Self::IpLength => "the IP length does not fit the frame",
            Self::IpChecksum => "the checksum of the IPv4 header is wrong",
            Self::ExtensionHeaders => "too many IPv6 extension headers",
            Self::TransportLength => "the transport length does not fit the IP packet",
            Self::Segmentation => "the offload request does not fit the frame",
            Self::Tunnel => "the tunnel header is not valid",
            Self::SourceAddress => "the source is an address that no sender can have",
            Self::Fragment => "a later fragment reaches into the transport header",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Malformed {}

/// Which packets belong together: both ends and the protocol. For an ICMP query both ports hold its identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    /// Who sends.
    pub source: Ip,
    /// To whom.
    pub destination: Ip,
    /// The transport port it is sent from; 0 where the protocol has none.
    pub source_port: u16,
    /// The transport port it is sent to; 0 where the protocol has none.
    pub destination_port: u16,
    /// The protocol of the IP payload.
    pub protocol: u8,
}

impl FlowId {
    /// The packets that answer.
    #[must_use]
    pub const fn reverse(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// Whether it is of an ICMP, where one identifier stands for both ports.
    pub const fn is_icmp(&self) -> bool {
        self.protocol == protocol::ICMP || self.protocol == protocol::ICMPV6
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, source_port, destination_port, protocol } = self;
        let port = |f: &mut fmt::Formatter<'_>, address: &Ip, port: u16| match address.is_v4() {
            true => write!(f, "{address}:{port}"),
            false => write!(f, "[{address}]:{port}"),
        };
        write!(f, "{protocol} ")?;
        port(f, source, *source_port)?;
        f.write_str(" > ")?;
        port(f, destination, *destination_port)
    }
}

/// What a frame is, as far as a switch cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IP packet of a flow: TCP, UDP, SCTP, an ICMP query, or another protocol.
    Ip,
    /// An ICMP or ICMPv6 error about some other packet.
    IcmpError,
    /// An ARP request or reply, or an IPv6 neighbour message. In `id`, a request goes from who asks to whom it asks about;
    /// an answer goes from whom it speaks of to who asked.
    Neighbour {
        /// Whether it asks.
        request: bool,
    },
    /// An IPv6 message that only routers send: an advertisement or a redirect.
    Router,
    /// Anything else, known by its Ethernet type only.
    Other,
}

/// Whether the packet is a piece of a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// It is whole.
    #[default]
    Whole,
    /// The first piece, which has the transport header.
    First {
        /// What the pieces have in common.
        id: u32,
    },
    /// A later piece, which has none.
    Later {
        /// What the pieces have in common.
        id: u32,
        /// Whether it is the last.
        last: bool,
    },
}

/// Where the headers of a frame are, and what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// What it is.
    pub kind: Kind,
    /// Whose it is.
    pub id: FlowId,
    /// Whether it is a piece.
    pub fragment: Fragment,
    /// The destination address of the frame.
    pub destination_mac: MacAddress,
    /// The source address of the frame.
    pub source_mac: MacAddress,
    /// What the frame carries, behind a VLAN tag if there is one.
    pub ether_type: u16,
    /// The VLAN of the tag, if there is one.
    pub vlan: Option<u16>,
    /// Where the IP or ARP header starts.
    pub l3: u16,
    /// Where the transport header starts.
    pub l4: u16,
    /// Where the transport payload starts.
    pub payload: u16,
    /// Where the IP packet ends; what follows is padding.
    pub end: u32,
    /// Flags of the TCP header.
    pub tcp_flags: u8,
    /// How many more routers the packet may cross.
    pub hop_limit: u8,
}

const ETHERNET: usize = 14;
const VLAN_TAG: usize = 4;
const EXTENSIONS_MAX: usize = 8;

/// What is behind the extension headers of an IPv6 packet.
struct Chain {
    protocol: u8,
    /// Of the IPv6 header and all that was walked over.
    length: usize,
    /// Where a piece begins in the payload of the whole.
    offset: u16,
}

/// How much of its transport header the first piece of a packet must have, in bytes.
const fn header_least(protocol: u8) -> u16 {
    match protocol {
        protocol::TCP => 20,
        protocol::SCTP => 12,
        _ => 8,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

impl Headers {
    /// Reads a frame.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        match plain::read(frame) {
            Some(headers) => Ok(headers),
            None => Self::parse_any(frame),
        }
    }

    /// Reads a frame that nearly all frames are: TCP or UDP, whole, in IP without options, without a tag. `None` if it is another,
    /// or not right; [`Self::parse`] says which. For loops that do the common thing in a few instructions.
    #[inline(always)]
    pub fn plain(frame: &[u8]) -> Option<Self> {
        plain::read(frame)
    }

    /// Reads a frame of any kind. It is kept out of [`Self::parse`], so that the loop it is called from stays small.
    #[inline(never)]
    fn parse_any(frame: &[u8]) -> Result<Self, Malformed> {
        let Some((ethernet, _)) = frame.split_first_chunk::<ETHERNET>() else {
            return Err(Malformed::Truncated);
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *ethernet;
        let mut headers = Self {
            kind: Kind::Other,
            id: FlowId::default(),
            fragment: Fragment::Whole,
            destination_mac: MacAddress([d0, d1, d2, d3, d4, d5]),
            source_mac: MacAddress([s0, s1, s2, s3, s4, s5]),
            ether_type: u16::from_be_bytes([t0, t1]),
            vlan: None,
            l3: ETHERNET as u16,
            l4: ETHERNET as u16,
            payload: ETHERNET as u16,
            end: frame.len() as u32,
            tcp_flags: 0,
            hop_limit: 0,
        };
        if s0 & 1 != 0 {
            return Err(Malformed::SourceAddress);
        }
        if headers.ether_type == ether_type::VLAN {
            headers.vlan = Some(word(frame, ETHERNET).ok_or(Malformed::Truncated)? & 0x0fff);
            headers.ether_type = word(frame, ETHERNET + 2).ok_or(Malformed::Truncated)?;
            headers.l3 += VLAN_TAG as u16;
            (headers.l4, headers.payload) = (headers.l3, headers.l3);
        }
        match headers.ether_type {
            ether_type::IPV4 => headers.ipv4(frame)?,
            ether_type::IPV6 => headers.ipv6(frame)?,
            ether_type::ARP => headers.arp(frame)?,
            _ => {}
        }
        Ok(headers)
    }

    #[inline]
    fn ipv4(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        let l3 = usize::from(self.l3);
        let bytes = frame.get(l3..).unwrap_or_default();
        let header = bytes.first_chunk::<20>().ok_or(Malformed::Truncated)?;
        if header[0] >> 4 != 4 {
            return Err(Malformed::IpVersion);
        }
        let header_length = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header_length < 20 {
            return Err(Malformed::HeaderLength);
        }
        if total < header_length || total > bytes.len() {
            return Err(Malformed::IpLength);
        }
        let sum = if header_length == 20 { sum20(header) } else { checksum::sum(&bytes[..header_length]) };
        if sum != 0xffff {
            return Err(Malformed::IpChecksum);
        }
        self.id.source = Ip::v4(u32::from_be_bytes([header[12], header[13], header[14], header[15]]));
        self.id.destination = Ip::v4(u32::from_be_bytes([header[16], header[17], header[18], header[19]]));
        self.id.protocol = header[9];
        self.hop_limit = header[8];
        self.l4 = (l3 + header_length) as u16;
        self.end = (l3 + total) as u32;
        let offset = u16::from_be_bytes([header[6], header[7]]);
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        self.fragment = match (offset & 0x1fff, offset & 0x2000 != 0) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First { id },
            (_, more) => Fragment::Later { id, last: !more },
        };
        self.kind = Kind::Ip;
        self.transport(frame, (offset & 0x1fff) * 8)
    }

    fn ipv6(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        let l3 = usize::from(self.l3);
        let bytes = frame.get(l3..).unwrap_or_default();
        let header = bytes.first_chunk::<40>().ok_or(Malformed::Truncated)?;
        if header[0] >> 4 != 6 {
            return Err(Malformed::IpVersion);
        }
        let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if total > bytes.len() {
            return Err(Malformed::IpLength);
        }
        let address = |at: usize| Ip(u128::from_be_bytes(*header[at..].first_chunk::<16>().unwrap_or(&[0; 16])));
        self.id.source = address(8);
        self.id.destination = address(24);
        // An IPv4 address written as IPv6 must not appear on the wire (RFC 4291, 2.5.5.2), and here would pass for the IPv4 one.
        if self.id.source.is_v4() || self.id.destination.is_v4() {
            return Err(Malformed::SourceAddress);
        }
        self.hop_limit = header[7];
        self.end = (l3 + total) as u32;
        self.kind = Kind::Ip;
        let Chain { protocol, length, offset } = self.extensions(&bytes[..total], header[6])?;
        self.id.protocol = protocol;
        self.l4 = (l3 + length) as u16;
        self.transport(frame, offset)
    }

    /// Walks over extension headers.
    fn extensions(&mut self, packet: &[u8], first: u8) -> Result<Chain, Malformed> {
        let (mut next, mut at, mut cut, mut begins) = (first, 40, false, 0);
        for _ in 0..EXTENSIONS_MAX {
            let length = match next {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    8 + 8 * usize::from(*packet.get(at + 1).ok_or(Malformed::Truncated)?)
                }
                // A second one would have the last word on whether the packet is whole.
                protocol::FRAGMENT if std::mem::replace(&mut cut, true) => return Err(Malformed::ExtensionHeaders),
                protocol::FRAGMENT => {
                    let offset = word(packet, at + 2).ok_or(Malformed::Truncated)?;
                    let id = long(packet, at + 4).ok_or(Malformed::Truncated)?;
                    self.fragment = match (offset & 0xfff8, offset & 1 != 0) {
                        (0, false) => Fragment::Whole,
                        (0, true) => Fragment::First { id },
                        (_, more) => Fragment::Later { id, last: !more },
                    };
                    begins = offset & 0xfff8;
                    8
                }
                _ => return Ok(Chain { protocol: next, length: at, offset: begins }),
            };
            next = *packet.get(at).ok_or(Malformed::Truncated)?;
            at += length;
            if at > packet.len() {
                return Err(Malformed::HeaderLength);
            }
            if matches!(self.fragment, Fragment::Later { .. }) {
                return Ok(Chain { protocol: next, length: at, offset: begins });
            }
        }
        Err(Malformed::ExtensionHeaders)
    }

    #[inline]
    fn transport(&mut self, frame: &[u8], offset: u16) -> Result<(), Malformed> {
        if self.id.source.is_multicast() {
            return Err(Malformed::SourceAddress);
        }
        self.payload = self.l4;
        if matches!(self.fragment, Fragment::Later { .. }) {
            // It would be written over the transport header that its first piece was judged by (RFC 3128).
            return if offset < header_least(self.id.protocol) { Err(Malformed::Fragment) } else { Ok(()) };
        }
        let l4 = frame.get(usize::from(self.l4)..self.end as usize).ok_or(Malformed::IpLength)?;
        match self.id.protocol {
            protocol::TCP => self.tcp(l4),
            protocol::UDP => self.udp(l4),
            protocol::SCTP => self.ports(l4, 12),
            protocol::ICMP if self.id.source.is_v4() => self.icmp(l4, |kind| matches!(kind, 3..=5 | 11 | 12)),
            protocol::ICMPV6 if !self.id.source.is_v4() => self.icmpv6(l4),
            _ => Ok(()),
        }
    }

    #[inline]
    fn ports(&mut self, l4: &[u8], length: usize) -> Result<(), Malformed> {
        let Some([s0, s1, d0, d1]) = l4.first_chunk::<4>() else {
            return Err(Malformed::Truncated);
        };
        if l4.len() < length {
            return Err(Malformed::Truncated);
        }
        self.id.source_port = u16::from_be_bytes([*s0, *s1]);
        self.id.destination_port = u16::from_be_bytes([*d0, *d1]);
        self.payload = self.l4 + length as u16;
        Ok(())
    }

    #[inline]
    fn tcp(&mut self, l4: &[u8]) -> Result<(), Malformed> {
        let header = l4.first_chunk::<20>().ok_or(Malformed::Truncated)?;
        let length = usize::from(header[12] >> 4) * 4;
        if length < 20 || length > l4.len() {
            return Err(Malformed::HeaderLength);
        }
        self.tcp_flags = header[13];
        self.ports(l4, length)
    }

    #[inline]
    fn udp(&mut self, l4: &[u8]) -> Result<(), Malformed> {
        let header = l4.first_chunk::<8>().ok_or(Malformed::Truncated)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        // A first fragment has the length of the whole datagram, and a large segment to be cut has that of one packet.
        if length < 8 || (self.fragment == Fragment::Whole && length > l4.len()) {
            return Err(Malformed::TransportLength);
        }
        self.ports(l4, 8)
    }

    fn icmp(&mut self, l4: &[u8], is_error: impl Fn(u8) -> bool) -> Result<(), Malformed> {
        let header = l4.first_chunk::<8>().ok_or(Malformed::Truncated)?;
        self.payload = self.l4 + 8;
        if is_error(header[0]) {
            self.kind = Kind::IcmpError;
            return Ok(());
        }
        let identifier = u16::from_be_bytes([header[4], header[5]]);
        self.id.source_port = identifier;
        self.id.destination_port = identifier;
        Ok(())
    }

    fn icmpv6(&mut self, l4: &[u8]) -> Result<(), Malformed> {
        const SOLICITATION: u8 = 135;
        const ADVERTISEMENT: u8 = 136;
        const ROUTER_ADVERTISEMENT: u8 = 134;
        const REDIRECT: u8 = 137;
        let kind = *l4.first().ok_or(Malformed::Truncated)?;
        if matches!(kind, ROUTER_ADVERTISEMENT | REDIRECT) {
            self.kind = Kind::Router;
            return Ok(());
        }
        if !matches!(kind, SOLICITATION | ADVERTISEMENT) {
            return self.icmp(l4, |kind| kind < 128);
        }
        let target = l4.get(8..24).and_then(|bytes| bytes.first_chunk::<16>()).ok_or(Malformed::Truncated)?;
        // Neighbour messages never cross a router (RFC 4861, 7.1).
        if self.hop_limit != 255 {
            return Err(Malformed::TransportLength);
        }
        let target = Ip(u128::from_be_bytes(*target));
        // The target becomes an end of the flow, so what holds for addresses of packets holds for it. And a neighbour message
        // is never cut (RFC 6980).
        if target.is_v4() || target.is_multicast() || self.fragment != Fragment::Whole {
            return Err(Malformed::SourceAddress);
        }
        self.kind = Kind::Neighbour { request: kind == SOLICITATION };
        match kind {
            SOLICITATION => self.id.destination = target,
            _ => self.id.source = target,
        }
        self.payload = self.l4 + 24;
        Ok(())
    }

    fn arp(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        let bytes = frame.get(usize::from(self.l3)..).and_then(|bytes| bytes.first_chunk::<28>()).ok_or(Malformed::Truncated)?;
        // Ethernet and IPv4 are the only kinds there are in practice.
        if bytes[..6] != [0, 1, 8, 0, 6, 4] {
            return Ok(());
        }
        self.kind = Kind::Neighbour { request: bytes[7] == 1 };
        self.id.source = Ip::v4(u32::from_be_bytes([bytes[14], bytes[15], bytes[16], bytes[17]]));
        self.id.destination = Ip::v4(u32::from_be_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]));
        self.payload = self.l3 + 28;
        self.end = u32::from(self.payload);
        Ok(())
    }

    /// Whether the frame goes to a group of receivers.
    pub const fn is_group(&self) -> bool {
        self.destination_mac.0[0] & 1 != 0
    }

    /// Checks that the offload request fits what the frame is, so that nothing downstream has to.
    pub fn check_offload(&self, frame: &crate::Frame) -> Result<(), Malformed> {
        use crate::offload::{Checksum, SegmentationKind};
        if let Checksum::Partial { start, field } = frame.offload.checksum {
            let fits = start == self.l4 && u32::from(start) + u32::from(field) + 2 <= self.end;
            let expected = match self.id.protocol {
                protocol::TCP => field == 16,
                protocol::UDP => field == 6,
                protocol::SCTP => field == 8,
                _ => false,
            };
            // Of a piece, neither the rest of the payload nor, but for the first, the field is here.
            if self.kind != Kind::Ip || self.fragment != Fragment::Whole || !fits || !expected {
                return Err(Malformed::Segmentation);
            }
        }
        let Some(segmentation) = frame.offload.segmentation else {
            return Ok(());
        };
        let v4 = self.id.source.is_v4();
        let fits = match segmentation.kind {
            SegmentationKind::Tcp4 { .. } => v4 && self.id.protocol == protocol::TCP,
            SegmentationKind::Tcp6 { .. } => !v4 && self.id.protocol == protocol::TCP,
            SegmentationKind::Udp => self.id.protocol == protocol::UDP,
        };
        match fits && self.kind == Kind::Ip && self.fragment == Fragment::Whole && segmentation.size > 0 {
            true => Ok(()),
            false => Err(Malformed::Segmentation),
        }
    }
}

/// The sum over an IPv4 header without options.
#[inline]
fn sum20(header: &[u8; 20]) -> u16 {
    let mut total = 0u64;
    for word in header.as_chunks::<4>().0 {
        total += u64::from(u32::from_be_bytes(*word));
    }
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}
