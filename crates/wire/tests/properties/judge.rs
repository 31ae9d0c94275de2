//! Whether a frame is right, as another library sees it.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// Fails unless every length and checksum of the frame is right.
pub(crate) fn assert_sound(bytes: &[u8]) {
    let packet = SlicedPacket::from_ethernet(bytes).unwrap_or_else(|error| panic!("{error}: {}", wire::Printed(bytes)));
    match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            if let Some(transport) = packet.transport {
                assert_sound4(&transport, header.source, header.destination);
            }
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            if let Some(transport) = packet.transport {
                assert_sound6(&transport, header.source, header.destination);
            }
        }
        NetSlice::Arp(_) => {}
    }
}

fn assert_sound4(transport: &TransportSlice<'_>, source: [u8; 4], destination: [u8; 4]) {
    match transport {
        TransportSlice::Tcp(tcp) => assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(source, destination).unwrap()),
        TransportSlice::Udp(udp) if udp.checksum() == 0 => {}
        TransportSlice::Udp(udp) => {
            assert_eq!(udp.checksum(), udp.to_header().calc_checksum_ipv4_raw(source, destination, udp.payload()).unwrap());
        }
        TransportSlice::Icmpv4(icmp) => assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload())),
        other => panic!("{other:?}"),
    }
}

fn assert_sound6(transport: &TransportSlice<'_>, source: [u8; 16], destination: [u8; 16]) {
    match transport {
        TransportSlice::Tcp(tcp) => assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv6(source, destination).unwrap()),
        TransportSlice::Udp(udp) => {
            assert_eq!(udp.checksum(), udp.to_header().calc_checksum_ipv6_raw(source, destination, udp.payload()).unwrap());
        }
        TransportSlice::Icmpv6(icmp) => assert!(icmp.is_checksum_valid(source, destination)),
        other => panic!("{other:?}"),
    }
}
