//! Reading frames.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::{Checksum, Fragment, Headers, Ip, Kind, Offload, Segmentation, SegmentationKind, virtio};

use crate::sample::{Sample, good};

/// Where a part of the frame starts.
fn offset(frame: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - frame.as_ptr() as usize
}

fn agrees(sample: &Sample) {
    let bytes = sample.bytes();
    let headers = Headers::parse(&bytes).unwrap();
    let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
    assert_eq!(headers.vlan, packet.vlan_ids().first().map(|id| id.value()));
    let (l3, l4, end, fragmented) = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            assert_eq!(headers.id.source, Ip::from(ip.header().source_addr()));
            assert_eq!(headers.id.destination, Ip::from(ip.header().destination_addr()));
            assert_eq!(headers.hop_limit, ip.header().ttl());
            let l4 = offset(&bytes, ip.payload().payload);
            (offset(&bytes, ip.header().slice()), l4, l4 + ip.payload().payload.len(), ip.is_payload_fragmented())
        }
        NetSlice::Ipv6(ip) => {
            assert_eq!(headers.id.source, Ip::from(ip.header().source_addr()));
            assert_eq!(headers.id.destination, Ip::from(ip.header().destination_addr()));
            assert_eq!(headers.hop_limit, ip.header().hop_limit());
            let l4 = offset(&bytes, ip.payload().payload);
            (offset(&bytes, ip.header().slice()), l4, l4 + ip.payload().payload.len(), ip.is_payload_fragmented())
        }
        NetSlice::Arp(_) => unreachable!("no sample is one"),
    };
    assert_eq!((usize::from(headers.l3), usize::from(headers.l4), headers.end as usize), (l3, l4, end));
    assert_eq!(headers.fragment != Fragment::Whole, fragmented);
    if let Some(transport) = &packet.transport {
        transport_agrees(&bytes, &headers, transport);
    }
}

fn transport_agrees(bytes: &[u8], headers: &Headers, transport: &TransportSlice<'_>) {
    assert_eq!(headers.kind, Kind::Ip);
    let (ports, payload) = match transport {
        TransportSlice::Tcp(tcp) => {
            assert_eq!(headers.tcp_flags & 0x3f != 0, tcp.fin() || tcp.syn() || tcp.rst() || tcp.psh() || tcp.ack() || tcp.urg());
            ((tcp.source_port(), tcp.destination_port()), tcp.payload())
        }
        TransportSlice::Udp(udp) => ((udp.source_port(), udp.destination_port()), udp.payload()),
        TransportSlice::Icmpv4(icmp) => {
            let id = u16::from_be_bytes([icmp.bytes5to8()[0], icmp.bytes5to8()[1]]);
            ((id, id), icmp.payload())
        }
        TransportSlice::Icmpv6(icmp) => {
            let id = u16::from_be_bytes([icmp.bytes5to8()[0], icmp.bytes5to8()[1]]);
            ((id, id), icmp.payload())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!((headers.id.source_port, headers.id.destination_port), ports);
    assert_eq!(usize::from(headers.payload), offset(bytes, payload));
}

fn offload() -> impl Strategy<Value = Offload> {
    let checksum = prop_oneof![
        Just(Checksum::Complete),
        Just(Checksum::Verified),
        any::<(u16, u16)>().prop_map(|(start, field)| Checksum::Partial { start, field }),
    ];
    let kind = prop_oneof![
        any::<bool>().prop_map(|ecn| SegmentationKind::Tcp4 { ecn }),
        any::<bool>().prop_map(|ecn| SegmentationKind::Tcp6 { ecn }),
        Just(SegmentationKind::Udp),
    ];
    let segmentation = (kind, 1..=u16::MAX, any::<u16>());
    let segmentation = segmentation.prop_map(|(kind, size, header_length)| Segmentation { kind, size, header_length });
    (checksum, proptest::option::of(segmentation)).prop_map(|(checksum, segmentation)| Offload { checksum, segmentation })
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn good_packets_are_read_as_etherparse_reads_them(sample in good()) {
        agrees(&sample);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Headers::parse(&bytes);
    }

    #[test]
    fn damaged_packets_are_read_or_refused(sample in good(), damage in vec(any::<(u16, u8)>(), 1..6), length in any::<u16>()) {
        let mut bytes = sample.bytes();
        for (at, value) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        let _ = Headers::parse(&bytes);
        bytes.truncate(usize::from(length) % (bytes.len() + 1));
        if let Ok(headers) = Headers::parse(&bytes) {
            prop_assert!(headers.l3 <= headers.l4 && headers.l4 <= headers.payload);
            prop_assert!(u32::from(headers.payload) <= headers.end && headers.end as usize <= bytes.len());
        }
    }

    #[test]
    fn the_header_of_a_device_survives_the_circle(offload in offload()) {
        prop_assert_eq!(virtio::decode(&virtio::encode(&offload)), Ok(offload));
    }

    #[test]
    fn any_header_of_a_device_is_read_or_refused(bytes in any::<[u8; virtio::LENGTH]>()) {
        if let Ok(offload) = virtio::decode(&bytes) {
            prop_assert_eq!(virtio::decode(&virtio::encode(&offload)), Ok(offload));
        }
    }
}
