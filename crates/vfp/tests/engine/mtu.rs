//! Packets that are larger than the way they have to go.

use vfp::{DropReason, PortId, PortKind, ProgramSpec};
use wire::{Embedded, Frame, Headers, Segmentation, SegmentationKind};

use super::bench::{Bench, Carries, assert_sound, frame, ip, mac, port_spec};
use super::frames::{dont_fragment, partial};

/// A pair of NICs, the second of which takes packets of 1400 bytes.
fn narrow() -> (Bench, PortId, PortId) {
    let (bench, a, b) = Bench::pair(vec![]);
    let mut spec = port_spec("b", PortKind::Nic, bench.first_domain(), 2, &["10.0.0.2", "fd00::2"], ProgramSpec::default());
    spec.mtu = 1400;
    bench.switch.change_port(b, spec).expect("the port");
    (bench, a, b)
}

fn packet(v4: bool, carries: Carries, total: usize) -> Vec<u8> {
    let (from, to) = if v4 { ("10.0.0.1", "10.0.0.2") } else { ("fd00::1", "fd00::2") };
    let headers = frame((mac(1), mac(2)), ip(from), ip(to), carries, b"").len() - 14;
    frame((mac(1), mac(2)), ip(from), ip(to), carries, &vec![3; total - headers])
}

#[test]
fn the_sender_is_told_what_would_pass() {
    for v4 in [true, false] {
        let (mut bench, a, b) = narrow();
        let large = packet(v4, Carries::Tcp(1000, 80, 16), 1401);
        let large = if v4 { dont_fragment(large) } else { large };
        for sent in 1..3 {
            assert_eq!(bench.fail(a, &large), DropReason::PacketTooBig);
            let (egress, error, headers) = bench.next();
            assert_eq!(egress.port, a);
            assert_sound(&error);
            assert_eq!(
                (headers.id.source, headers.source_mac, headers.destination_mac),
                (ip(if v4 { "10.0.0.2" } else { "fd00::2" }), mac(2), mac(1))
            );
            let l4 = usize::from(headers.l4);
            let told = u32::from_be_bytes(error.bytes()[l4 + 4..l4 + 8].try_into().expect("four bytes"));
            assert_eq!((error.bytes()[l4], told), (if v4 { 3 } else { 2 }, 1400));
            let about = Embedded::parse(error.bytes(), &headers).expect("it quotes").id;
            assert_eq!(about, Headers::parse(&large).expect("it is sound").id);
            assert_eq!(bench.switch.counters().errors_sent, sent);
        }
        let fits = packet(v4, Carries::Tcp(1000, 80, 16), 1400);
        assert_eq!(bench.pass(a, &fits).0.port, b);
    }
}

#[test]
fn what_may_be_cut_is_cut() {
    for offload in [false, true] {
        let (mut bench, a, b) = narrow();
        let bytes = packet(true, Carries::Udp(1000, 53), 3000);
        let large = if offload { partial(&bytes) } else { Frame::from_bytes(&bytes) };
        assert_eq!(bench.send_frame(a, &large).drop_reason(), None);
        let mut joined = Vec::new();
        let count = bench.out.sent.len();
        for _ in 0..count {
            let (egress, piece, headers) = bench.next();
            assert_eq!(egress.port, b);
            assert!(headers.end - 14 <= 1400);
            joined.extend(&piece.bytes()[usize::from(headers.l4)..headers.end as usize]);
        }
        assert_eq!((count, joined), (3, bytes[34..].to_vec()), "also the checksum is complete");
    }
}

#[test]
fn a_segment_to_be_cut_is_judged_by_its_pieces() {
    for v4 in [true, false] {
        let (mut bench, a, _) = narrow();
        let bytes = packet(v4, Carries::Tcp(1000, 80, 16), 9000);
        let kind = if v4 { SegmentationKind::Tcp4 { ecn: false } } else { SegmentationKind::Tcp6 { ecn: false } };
        let headers = if v4 { 40 } else { 60 };
        let mut large = partial(&bytes);
        for (size, passes) in [(1400 - headers, true), (1401 - headers, false)] {
            large.offload.segmentation = Some(Segmentation { kind, size, header_length: 54 });
            let verdict = bench.send_frame(a, &large);
            assert_eq!(verdict.drop_reason(), if passes { None } else { Some(DropReason::PacketTooBig) });
            let (_, left, _) = bench.next();
            if passes {
                assert_eq!((left.offload, left.len()), (large.offload, large.len()), "it crosses as one");
            }
        }
    }
}

#[test]
fn nobody_is_told_about_an_error_or_a_later_piece() {
    let (mut bench, a, _) = narrow();
    let [first, later] = super::frames::pieces(&packet(true, Carries::Udp(1, 2), 3000), 64, 1);
    bench.pass(a, &first);
    assert_eq!(bench.fail(a, &dont_fragment(later)), DropReason::PacketTooBig);
    assert!(bench.out.sent.is_empty());
}
