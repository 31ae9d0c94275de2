//! Wrapping frames and unwrapping them.

use proptest::prelude::*;
use wire::outer::{self, Outer};
use wire::segment::{Segments, complete_checksum};
use wire::stt::Reassembler;
use wire::{Checksum, Encapsulation, Frame, Headers, Ip, MacAddress, Offload, Segmentation, SegmentationKind, TunnelKind, checksum};

use crate::judge::assert_sound;
use crate::sample::{Transport, whole};

fn tunnel() -> impl Strategy<Value = Encapsulation> {
    let kind = prop_oneof![Just(TunnelKind::Vxlan), Just(TunnelKind::Geneve), Just(TunnelKind::Stt)];
    (kind, 0..1u32 << 24, any::<bool>(), any::<(u16, u16)>(), 1..=u16::MAX).prop_map(|(kind, vni, v4, hosts, port)| {
        let address = |host: u16| if v4 { Ip::v4(0xc0a8_0000 | u32::from(host)) } else { Ip(0xfd99 << 112 | u128::from(host)) };
        Encapsulation { kind, vni, local: address(hosts.0), remote: address(hosts.1), port }
    })
}

fn outer_headers() -> impl Strategy<Value = Outer> {
    (any::<u16>(), any::<u8>(), 0..64u8, any::<u32>()).prop_map(|(source_port, hop_limit, dscp, id)| Outer {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source_port,
        hop_limit,
        dscp,
        id,
    })
}

/// The same tunnel as the other side sees it.
fn mirrored(tunnel: Encapsulation) -> Encapsulation {
    Encapsulation { local: tunnel.remote, remote: tunnel.local, ..tunnel }
}

/// Leaves the transport checksum of a frame open, as a sender with a capable NIC does.
fn open_checksum(frame: &mut Frame) {
    let headers = Headers::parse(frame.bytes()).unwrap();
    let field: u16 = if headers.id.protocol == 6 { 16 } else { 6 };
    let length = headers.end - u32::from(headers.l4);
    let sum = checksum::pseudo_header(headers.id.source, headers.id.destination, headers.id.protocol, length);
    let at = usize::from(headers.l4 + field);
    frame.bytes_mut()[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    frame.offload.checksum = Checksum::Partial { start: headers.l4, field };
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn unwrapping_undoes_wrapping(sample in whole(), tunnel in tunnel(), outer in outer_headers(), open in any::<bool>()) {
        let mut frame = Frame::from_bytes(&sample.bytes());
        if open && !matches!(sample.transport, Transport::Echo) {
            open_checksum(&mut frame);
        }
        let before = frame.clone();
        outer::push(&mut frame, &tunnel, &outer).unwrap();
        prop_assert_eq!(frame.len(), before.len() + outer::length(&tunnel));
        let headers = Headers::parse(frame.bytes()).unwrap();
        prop_assert_eq!(headers.id.source_port, outer.source_port);
        prop_assert_eq!(outer::pop(&mut frame, &headers, tunnel.kind), Ok(mirrored(tunnel)));
        prop_assert_eq!(frame.bytes(), before.bytes());
        prop_assert_eq!(frame.offload, before.offload);
    }

    #[test]
    fn what_travels_outside_is_sound(sample in whole(), tunnel in tunnel(), outer in outer_headers(), open in any::<bool>()) {
        let mut frame = Frame::from_bytes(&sample.bytes());
        if open && !matches!(sample.transport, Transport::Echo) {
            open_checksum(&mut frame);
        }
        let inner_partial = frame.offload.checksum;
        outer::push(&mut frame, &tunnel, &outer).unwrap();
        let headers = Headers::parse(frame.bytes()).unwrap();
        match (tunnel.kind, inner_partial) {
            (TunnelKind::Stt, _) => complete_checksum(&mut frame, &headers).unwrap(),
            // The outer checksum was computed for what the inner one will be.
            (_, Checksum::Partial { field, .. }) => {
                let length = outer::length(&tunnel);
                frame.pull(length).unwrap();
                let inner = Headers::parse(frame.bytes()).unwrap();
                complete_checksum(&mut frame, &inner).unwrap();
                frame.push(length).unwrap();
                prop_assert!(field == 16 || field == 6);
            }
            _ => {}
        }
        assert_sound(frame.bytes());
        let headers = Headers::parse(frame.bytes()).unwrap();
        prop_assert!(outer::pop(&mut frame, &headers, tunnel.kind).is_ok());
    }

    #[test]
    fn a_bit_that_fell_over_is_noticed(sample in whole(), tunnel in tunnel(), outer in outer_headers(), at in any::<u16>(), bit in 0..8u8) {
        prop_assume!(!tunnel.local.is_v4() || tunnel.kind == TunnelKind::Stt);
        let mut frame = Frame::from_bytes(&sample.bytes());
        outer::push(&mut frame, &tunnel, &outer).unwrap();
        let headers = Headers::parse(frame.bytes()).unwrap();
        if tunnel.kind == TunnelKind::Stt {
            complete_checksum(&mut frame, &headers).unwrap();
        }
        let start = outer::length(&tunnel);
        let at = start + usize::from(at) % (frame.len() - start);
        frame.bytes_mut()[at] ^= 1 << bit;
        prop_assert!(outer::pop(&mut frame, &headers, tunnel.kind).is_err());
    }

    #[test]
    fn an_stt_frame_is_put_together_in_any_order(sample in whole(), mut tunnel in tunnel(), outer in outer_headers(), size in 40..900u16, order in any::<u64>()) {
        tunnel.kind = TunnelKind::Stt;
        let mut frame = Frame::from_bytes(&sample.bytes());
        let before = frame.clone();
        outer::push(&mut frame, &tunnel, &outer).unwrap();
        let kind = if tunnel.local.is_v4() { SegmentationKind::Tcp4 { ecn: false } } else { SegmentationKind::Tcp6 { ecn: false } };
        frame.offload.segmentation = Some(Segmentation { kind, size, header_length: 0 });
        let headers = Headers::parse(frame.bytes()).unwrap();
        let segments = Segments::new(&frame, &headers).unwrap();
        let mut room = [0; 160];
        let mut pieces: Vec<Vec<u8>> = (0..segments.count()).map(|number| {
            let payload = segments.piece(number, &mut room).unwrap();
            [&room[..segments.header_length()], &frame.bytes()[payload]].concat()
        }).collect();
        // A few swaps are as much disorder as the way makes.
        for swap in 0..3 {
            let (a, b) = ((order >> (swap * 16)) as usize % pieces.len(), (order >> (swap * 16 + 8)) as usize % pieces.len());
            pieces.swap(a, b);
        }
        let mut reassembler = Reassembler::default();
        let mut whole = Frame::default();
        for (number, piece) in pieces.iter().enumerate() {
            assert_sound(piece);
            whole.fill(piece);
            let headers = Headers::parse(piece).unwrap();
            prop_assert_eq!(reassembler.accept(&mut whole, &headers), Ok(number + 1 == pieces.len()));
        }
        prop_assert!(reassembler.is_empty());
        prop_assert_eq!(outer::open_stt(&mut whole), Ok(tunnel.vni));
        prop_assert_eq!(whole.bytes(), before.bytes());
    }
}

#[test]
fn a_frame_to_be_cut_travels_in_stt_only() {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([0, 1, 1, 1, 1, 1], [0, 2, 2, 2, 2, 2]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
    builder.tcp(1, 2, 3, 4).write(&mut bytes, &[7; 9000]).unwrap();
    let mut frame = Frame::from_bytes(&bytes);
    open_checksum(&mut frame);
    frame.offload.segmentation = Some(Segmentation { kind: SegmentationKind::Tcp4 { ecn: false }, size: 1400, header_length: 0 });
    let offload = frame.offload;
    let mut tunnel = Encapsulation { local: Ip::v4(1), remote: Ip::v4(2), port: 4789, ..Encapsulation::default() };
    assert!(outer::push(&mut frame.clone(), &tunnel, &Outer::default()).is_err());
    tunnel.kind = TunnelKind::Stt;
    outer::push(&mut frame, &tunnel, &Outer::default()).unwrap();
    let headers = Headers::parse(frame.bytes()).unwrap();
    assert_eq!(headers.check_offload(&frame), Ok(()), "the outer checksum is what is left to do");
    outer::pop(&mut frame, &headers, TunnelKind::Stt).unwrap();
    assert_eq!(frame.offload, offload);
    assert_ne!(frame.offload, Offload::NONE);
}
