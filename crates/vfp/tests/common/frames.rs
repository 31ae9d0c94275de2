//! Frames for tests, made and judged by another implementation.

#![allow(dead_code, reason = "not every test needs every kind of frame")]

use std::net::IpAddr;

use etherparse::{IpHeaders, IpNumber, NetHeaders, PacketBuilder, PacketHeaders, TransportHeader};
use vfp::{Egress, PortId, Sink, UnderlayId};
use wire::{Frame, Headers, Ip, MacAddress, segment};

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carries {
    /// TCP with these ports and flags.
    Tcp(u16, u16, u8),
    /// UDP with these ports.
    Udp(u16, u16),
    /// An echo request with this identifier.
    Echo(u16),
    /// An echo reply with this identifier.
    EchoReply(u16),
    /// SCTP with these ports.
    Sctp(u16, u16),
    /// A protocol of which nothing is known.
    Raw(u8),
}

/// The hardware address that ends with this byte.
pub(crate) fn mac(last: u8) -> MacAddress {
    MacAddress([0x00, 0x15, 0x5d, 0, 0, last])
}

/// An address from its text.
pub(crate) fn ip(text: &str) -> Ip {
    Ip::from(text.parse::<IpAddr>().expect("an address"))
}

/// A frame, with checksums. The hardware addresses are those of the sender and of the receiver.
pub(crate) fn frame(macs: (MacAddress, MacAddress), from: Ip, to: Ip, what: Carries, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(macs.0.0, macs.1.0).ip(ip_header(from, to));
    let mut bytes = Vec::new();
    match (what, from.is_v4()) {
        (Carries::Tcp(source, destination, flags), _) => {
            let mut header = etherparse::TcpHeader::new(source, destination, 1, 1024);
            (header.fin, header.syn, header.rst, header.psh, header.ack) =
                (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0, flags & 8 != 0, flags & 16 != 0);
            builder.tcp_header(header).write(&mut bytes, payload)
        }
        (Carries::Udp(source, destination), _) => builder.udp(source, destination).write(&mut bytes, payload),
        (Carries::Echo(id), true) => builder.icmpv4_echo_request(id, 1).write(&mut bytes, payload),
        (Carries::Echo(id), false) => builder.icmpv6_echo_request(id, 1).write(&mut bytes, payload),
        (Carries::EchoReply(id), true) => builder.icmpv4_echo_reply(id, 1).write(&mut bytes, payload),
        (Carries::EchoReply(id), false) => builder.icmpv6_echo_reply(id, 1).write(&mut bytes, payload),
        (Carries::Sctp(source, destination), _) => {
            let mut sctp = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            sctp.extend([0; 8]);
            sctp.extend(payload);
            builder.write(&mut bytes, IpNumber(132), &sctp)
        }
        (Carries::Raw(protocol), _) => builder.write(&mut bytes, IpNumber(protocol), payload),
    }
    .expect("it fits");
    bytes
}

fn ip_header(from: Ip, to: Ip) -> IpHeaders {
    match (from.into(), to.into()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = etherparse::Ipv4Header {
                time_to_live: 64,
                dont_fragment: false,
                source: from.octets(),
                destination: to.octets(),
                ..Default::default()
            };
            IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = etherparse::Ipv6Header { hop_limit: 64, source: from.octets(), destination: to.octets(), ..Default::default() };
            IpHeaders::Ipv6(header, Default::default())
        }
        _ => panic!("both ends are of one family"),
    }
}

/// Sets "don't fragment" in an IPv4 packet.
pub(crate) fn dont_fragment(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[20] |= 0x40;
    repair(&mut bytes);
    bytes
}

/// Makes the checksum of an IPv4 header right.
pub(crate) fn repair(bytes: &mut [u8]) {
    let length = bytes.get(14).map_or(0, |first| usize::from(first & 15) * 4);
    if let Some(header) = bytes.get_mut(14..14 + length).filter(|header| header.len() >= 20 && header[0] >> 4 == 4) {
        header[10..12].fill(0);
        let sum = !wire::checksum::sum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The two pieces of a packet, of which the first has `size` bytes of the payload.
pub(crate) fn pieces(whole: &[u8], size: usize, id: u16) -> [Vec<u8>; 2] {
    match whole[14] >> 4 {
        4 => pieces4(whole, size, id),
        _ => pieces6(whole, size, u32::from(id)),
    }
}

fn pieces4(whole: &[u8], size: usize, id: u16) -> [Vec<u8>; 2] {
    let piece = |payload: &[u8], offset: u16| {
        let mut bytes = whole[..34].to_vec();
        bytes[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        bytes[18..20].copy_from_slice(&id.to_be_bytes());
        bytes[20..22].copy_from_slice(&offset.to_be_bytes());
        repair(&mut bytes);
        bytes.extend(payload);
        bytes
    };
    [piece(&whole[34..34 + size], 0x2000), piece(&whole[34 + size..], (size / 8) as u16)]
}

fn pieces6(whole: &[u8], size: usize, id: u32) -> [Vec<u8>; 2] {
    let piece = |payload: &[u8], offset: u16| {
        let mut bytes = whole[..54].to_vec();
        bytes[18..20].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        let next = std::mem::replace(&mut bytes[20], 44);
        bytes.extend([next, 0]);
        bytes.extend(offset.to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    [piece(&whole[54..54 + size], 1), piece(&whole[54 + size..], size as u16)]
}

/// The same packet with headers between that of IPv6 and what it carries: each by its number, and how many times eight bytes it is longer
/// than eight.
pub(crate) fn extended(whole: &[u8], chain: &[(u8, u8)]) -> Vec<u8> {
    let mut bytes = whole[..54].to_vec();
    let carried = bytes[20];
    bytes[20] = chain.first().map_or(carried, |(kind, _)| *kind);
    for (at, (_, units)) in chain.iter().enumerate() {
        let next = chain.get(at + 1).map_or(carried, |(kind, _)| *kind);
        let mut header = vec![next, *units];
        header.resize(8 + 8 * usize::from(*units), 0);
        bytes.extend(header);
    }
    bytes.extend(&whole[54..]);
    let length = (bytes.len() - 54) as u16;
    bytes[18..20].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Leaves the transport checksum to be completed, as a sender with an offload does.
pub(crate) fn partial(bytes: &[u8]) -> Frame {
    let mut frame = Frame::from_bytes(bytes);
    let headers = Headers::parse(bytes).expect("it is sound");
    let (l4, id) = (usize::from(headers.l4), headers.id);
    let field: u16 = if id.protocol == 6 { 16 } else { 6 };
    let sum = wire::checksum::pseudo_header(id.source, id.destination, id.protocol, headers.end - u32::from(headers.l4));
    let at = l4 + usize::from(field);
    frame.bytes_mut()[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    frame.offload.checksum = wire::Checksum::Partial { start: headers.l4, field };
    frame
}

/// Checks all checksums of a frame, after completing one that is partial.
pub(crate) fn assert_sound(frame: &Frame) {
    let mut whole = frame.clone();
    let headers = Headers::parse(frame.bytes()).expect("it can be read");
    whole.offload.segmentation = None;
    segment::complete_checksum(&mut whole, &headers).expect("the checksum can be completed");
    assert_checksums(whole.bytes());
}

/// Whether the checksums of a frame are right, judged by another implementation.
pub(crate) fn assert_checksums(frame: &[u8]) {
    let packet = PacketHeaders::from_ethernet_slice(frame).expect("it is sound");
    if let Some(NetHeaders::Ipv4(ip, _)) = &packet.net {
        assert_eq!(ip.header_checksum, ip.calc_header_checksum(), "of the IPv4 header");
    }
    let (Some(net), Some(transport)) = (&packet.net, &packet.transport) else { return };
    if let Some((found, expected)) = transport_checksum(net, transport, packet.payload.slice()) {
        assert_eq!(found, expected, "of the transport header");
    }
}

fn transport_checksum(net: &NetHeaders, transport: &TransportHeader, payload: &[u8]) -> Option<(u16, u16)> {
    Some(match (net, transport) {
        (NetHeaders::Ipv4(ip, _), TransportHeader::Tcp(tcp)) => (tcp.checksum, tcp.calc_checksum_ipv4(ip, payload).ok()?),
        (NetHeaders::Ipv6(ip, _), TransportHeader::Tcp(tcp)) => (tcp.checksum, tcp.calc_checksum_ipv6(ip, payload).ok()?),
        (NetHeaders::Ipv4(_, _), TransportHeader::Udp(udp)) if udp.checksum == 0 => return None,
        (NetHeaders::Ipv4(ip, _), TransportHeader::Udp(udp)) => (udp.checksum, udp.calc_checksum_ipv4(ip, payload).ok()?),
        (NetHeaders::Ipv6(ip, _), TransportHeader::Udp(udp)) => (udp.checksum, udp.calc_checksum_ipv6(ip, payload).ok()?),
        (_, TransportHeader::Icmpv4(icmp)) => (icmp.checksum, icmp.icmp_type.calc_checksum(payload)),
        (NetHeaders::Ipv6(ip, _), TransportHeader::Icmpv6(icmp)) => {
            (icmp.checksum, icmp.icmp_type.calc_checksum(ip.source, ip.destination, payload).ok()?)
        }
        _ => return None,
    })
}

/// What leaves the switch.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) sent: Vec<(Egress, Frame)>,
    pub(crate) scratch: Frame,
}

impl Sink for Out {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        self.sent.push((*egress, frame.clone()));
    }

    fn resolve(&mut self, _underlay: UnderlayId, _next_hop: Ip, _port: PortId, _frame: &Frame) {}

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}
