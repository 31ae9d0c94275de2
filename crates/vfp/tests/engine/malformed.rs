//! Frames that are not what they say: dropped with a reason, and never forwarded.

use proptest::prelude::*;
use vfp::{DropReason, Flood, Outcome};
use wire::{Checksum, Frame, Headers, Offload, Segmentation, SegmentationKind, arp, neighbour};

use super::bench::{Bench, Carries, echo, frame, ip, mac, tcp, udp};
use super::frames::{partial, pieces, repair};

fn samples() -> Vec<Vec<u8>> {
    let mut asked = Frame::default();
    arp::request(ip("10.0.0.1"), mac(1), ip("10.0.0.2"), &mut asked);
    let mut asked6 = Frame::default();
    assert!(neighbour::request(ip("fd00::1"), mac(1), ip("fd00::2"), &mut asked6));
    let six = udp((1, 2), ("fd00::1", 1), ("fd00::2", 2), b"payload");
    let mut error = Frame::default();
    let about = tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1), 16);
    let headers = Headers::parse(&about).expect("it is sound");
    let problem = wire::icmp::Problem::HopLimit;
    assert!(wire::icmp::error(&about, &headers, problem, ip("10.0.0.1"), mac(1), &mut error));
    vec![
        tcp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), 2),
        tcp((1, 2), ("fd00::1", 1), ("fd00::2", 2), 2),
        udp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), b"payload"),
        echo((1, 2), "10.0.0.1", "10.0.0.2", 3),
        echo((1, 2), "fd00::1", "fd00::2", 3),
        frame((mac(1), mac(2)), ip("10.0.0.1"), ip("10.0.0.2"), Carries::Sctp(1, 2), b"chunk"),
        pieces(&six, 8, 1)[0].clone(),
        six,
        asked.bytes().to_vec(),
        asked6.bytes().to_vec(),
        error.bytes().to_vec(),
    ]
}

#[test]
fn a_frame_that_was_cut_off_anywhere_is_dropped() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    for whole in samples() {
        for length in 0..whole.len() {
            let verdict = bench.send(a, &whole[..length]);
            assert!(matches!(verdict.outcome, Outcome::Dropped(_)), "{length} of {whole:x?}: {verdict:?}");
            assert!(bench.out.sent.is_empty());
        }
    }
}

#[test]
fn each_lie_has_its_reason() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    let lies: [(usize, u8, DropReason); 8] = [
        (6, 1, DropReason::SourceAddress),
        (14, 0x65, DropReason::IpVersion),
        (14, 0x44, DropReason::HeaderLength),
        (17, 255, DropReason::IpLength),
        (17, 10, DropReason::IpLength),
        (26, 224, DropReason::SourceAddress),
        (46, 0x40, DropReason::HeaderLength),
        (46, 0xf0, DropReason::HeaderLength),
    ];
    for (at, value, reason) in lies {
        let mut bytes = tcp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), 2);
        bytes[at] = value;
        repair(&mut bytes);
        assert_eq!(bench.fail(a, &bytes), reason, "byte {at}");
    }
    let mut bytes = tcp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), 2);
    bytes[22] ^= 1;
    assert_eq!(bench.fail(a, &bytes), DropReason::IpChecksum);
    let mut bytes = udp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), b"payload");
    bytes[39] = 99;
    assert_eq!(bench.fail(a, &bytes), DropReason::TransportLength);
    let mapped = udp((1, 2), ("fd00::1", 1), ("fd00::2", 2), b"payload");
    let mut bytes = mapped.clone();
    bytes[22..38].copy_from_slice(&ip("10.0.0.1").0.to_be_bytes());
    assert_eq!(bench.fail(a, &bytes), DropReason::SourceAddress, "IPv4 in the clothes of IPv6");
}

#[test]
fn what_is_left_to_do_must_fit() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    let bytes = tcp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), 16);
    let segmentation = |kind, size| Some(Segmentation { kind, size, header_length: 0 });
    let tcp4 = SegmentationKind::Tcp4 { ecn: false };
    let partial_at = |start, field| Checksum::Partial { start, field };
    let lies = [
        Offload { checksum: partial_at(33, 16), segmentation: None },
        Offload { checksum: partial_at(34, 6), segmentation: None },
        Offload { checksum: partial_at(34, u16::MAX), segmentation: None },
        Offload { checksum: partial_at(u16::MAX, u16::MAX), segmentation: None },
        Offload { checksum: partial_at(34, 16), segmentation: segmentation(SegmentationKind::Tcp6 { ecn: false }, 100) },
        Offload { checksum: partial_at(34, 16), segmentation: segmentation(SegmentationKind::Udp, 100) },
        Offload { checksum: partial_at(34, 16), segmentation: segmentation(tcp4, 0) },
    ];
    for offload in lies {
        let mut frame = Frame::from_bytes(&bytes);
        frame.offload = offload;
        assert_eq!(bench.send_frame(a, &frame).drop_reason(), Some(DropReason::Offload), "{offload:?}");
    }
    let mut frame = partial(&bytes);
    frame.offload.segmentation = segmentation(tcp4, 100);
    assert_eq!(bench.send_frame(a, &frame).drop_reason(), None, "the truth passes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_is_handled(bytes in prop::collection::vec(any::<u8>(), 0..200), flags in any::<[u8; 12]>()) {
        let (mut bench, a, _) = Bench::pair(vec![]);
        let spec = vfp::DomainSpec { name: "switch".into(), flood: Flood::Everybody, other_protocols: true };
        bench.switch.change_domain(bench.first_domain(), spec).expect("the domain");
        let mut frame = Frame::from_bytes(&bytes);
        frame.offload = wire::virtio::decode(&flags).unwrap_or_default();
        let verdict = bench.send_frame(a, &frame);
        let readable = Headers::parse(&bytes).is_ok_and(|headers| headers.check_offload(&frame).is_ok());
        prop_assert!(readable || (verdict.drop_reason().is_some() && bench.out.sent.is_empty()));
    }

    #[test]
    fn damage_is_handled(sample in 0..11usize, damage in prop::collection::vec((0..80usize, any::<u8>()), 1..4)) {
        let (mut bench, a, _) = Bench::pair(vec![]);
        let mut bytes = samples()[sample].clone();
        for (at, value) in damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        repair(&mut bytes);
        let verdict = bench.send(a, &bytes);
        prop_assert!(Headers::parse(&bytes).is_ok() || verdict.drop_reason().is_some());
        for (_, frame) in &bench.out.sent {
            prop_assert!(Headers::parse(frame.bytes()).is_ok());
        }
    }
}
