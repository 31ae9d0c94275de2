//! Who reads. All turn bytes into the same five facts.

use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};
use wire::{FlowId, Headers, Ip};

/// One way to read.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// Reads one frame.
    pub(crate) read: fn(&[u8]) -> Option<FlowId>,
    /// Reads frames so many times, and says how long it took.
    pub(crate) time: fn(&[Vec<u8>], usize) -> Duration,
}

/// All of them, ours first.
pub(crate) const ALL: &[Reader] = &[
    Reader { name: "wire", read: ours, time: |frames, repeats| crate::turn(frames, repeats, |frame| fold(ours(frame))) },
    Reader { name: "wire, everything it tells used", read: ours, time: |frames, repeats| crate::turn(frames, repeats, all_of_ours) },
    Reader {
        name: "etherparse",
        read: with_etherparse,
        time: |frames, repeats| crate::turn(frames, repeats, |frame| fold(with_etherparse(frame))),
    },
    Reader {
        name: "smoltcp",
        read: with_smoltcp::<false>,
        time: |frames, repeats| crate::turn(frames, repeats, |frame| fold(with_smoltcp::<false>(frame))),
    },
    Reader {
        name: "smoltcp, IPv4 checksum verified",
        read: with_smoltcp::<true>,
        time: |frames, repeats| crate::turn(frames, repeats, |frame| fold(with_smoltcp::<true>(frame))),
    },
];

/// One number of all five facts.
#[inline]
fn fold(id: Option<FlowId>) -> u64 {
    let Some(FlowId { source, destination, source_port, destination_port, protocol }) = id else {
        return 0;
    };
    let addresses = source.0 ^ destination.0.rotate_left(1);
    let ports = u64::from(source_port) << 32 | u64::from(destination_port) << 8 | u64::from(protocol);
    addresses as u64 ^ (addresses >> 64) as u64 ^ ports
}

/// One number of all that our reader tells.
#[inline]
fn all_of_ours(frame: &[u8]) -> u64 {
    let Ok(headers) = Headers::parse(frame) else {
        return 0;
    };
    let offsets = u64::from(headers.l3) << 48 | u64::from(headers.l4) << 32 | u64::from(headers.payload) << 16 | u64::from(headers.end);
    let small = u64::from(headers.tcp_flags) << 8 | u64::from(headers.hop_limit) | u64::from(headers.vlan.unwrap_or(0)) << 16;
    let flags = u64::from(headers.fragment == wire::Fragment::Whole) << 1 | u64::from(headers.kind == wire::Kind::Ip);
    let macs = headers.destination_mac.to_u64() ^ headers.source_mac.to_u64();
    fold(Some(headers.id)) ^ offsets ^ small ^ flags ^ macs
}

#[inline]
fn ours(frame: &[u8]) -> Option<FlowId> {
    Headers::parse(frame).ok().map(|headers| headers.id)
}

#[inline]
fn with_etherparse(frame: &[u8]) -> Option<FlowId> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (source, destination) = match packet.net? {
        NetSlice::Ipv4(ip) => (Ip::from(ip.header().source_addr()), Ip::from(ip.header().destination_addr())),
        NetSlice::Ipv6(ip) => (Ip::from(ip.header().source_addr()), Ip::from(ip.header().destination_addr())),
        NetSlice::Arp(_) => return None,
    };
    let (source_port, destination_port, protocol) = match packet.transport? {
        TransportSlice::Tcp(tcp) => (tcp.source_port(), tcp.destination_port(), 6),
        TransportSlice::Udp(udp) => (udp.source_port(), udp.destination_port(), 17),
        _ => return None,
    };
    Some(FlowId { source, destination, source_port, destination_port, protocol })
}

#[inline]
fn with_smoltcp<const CHECKSUM: bool>(frame: &[u8]) -> Option<FlowId> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            if CHECKSUM && !ip.verify_checksum() {
                return None;
            }
            smoltcp_ports(Ip::from(ip.src_addr()), Ip::from(ip.dst_addr()), ip.next_header(), ip.payload())
        }
        EthernetProtocol::Ipv6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            smoltcp_ports(Ip::from(ip.src_addr()), Ip::from(ip.dst_addr()), ip.next_header(), ip.payload())
        }
        _ => None,
    }
}

#[inline]
fn smoltcp_ports(source: Ip, destination: Ip, protocol: IpProtocol, payload: &[u8]) -> Option<FlowId> {
    let (source_port, destination_port) = match protocol {
        IpProtocol::Tcp => TcpPacket::new_checked(payload).ok().map(|tcp| (tcp.src_port(), tcp.dst_port()))?,
        IpProtocol::Udp => UdpPacket::new_checked(payload).ok().map(|udp| (udp.src_port(), udp.dst_port()))?,
        _ => return None,
    };
    Some(FlowId { source, destination, source_port, destination_port, protocol: u8::from(protocol) })
}
