use proptest::prelude::*;

use super::*;
use crate::segment::tests::{is_right, pieces, tcp4, tcp6};
use tcp_flag::{ACK, CWR, FIN, PSH};

const ECE: u8 = 0x40;

/// Joins what can be joined, in the way of a receiver.
fn joined(segments: &[Vec<u8>]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut frame = Frame::from_bytes(&segments[0]);
    let mut train = Train::default();
    for segment in &segments[1..] {
        if !train.append(&mut frame, segment) {
            train.finish(&mut frame);
            frames.push(frame.clone());
            frame.fill(segment);
        }
    }
    train.finish(&mut frame);
    frames.push(frame);
    frames
}

/// The frames that arrive for three segments of which the second was changed so. Checksums are made right again.
fn with_second_changed(frame: &Frame, change: impl FnOnce(&mut [u8])) -> Vec<Frame> {
    let mut segments = pieces(frame);
    change(&mut segments[1]);
    repair(&mut segments[1]);
    joined(&segments)
}

fn repair(bytes: &mut [u8]) {
    let v4 = bytes[12..14] == [8, 0];
    if v4 {
        let l4 = 14 + usize::from(bytes[14] & 15) * 4;
        write_ipv4_checksum(&mut bytes[14..l4]);
    }
    let headers = Headers::parse(bytes).unwrap();
    let l4 = usize::from(headers.l4);
    let mut frame = Frame::from_bytes(bytes);
    frame.bytes_mut()[l4 + 16..l4 + 18].fill(0);
    let length = headers.end as usize - l4;
    let pseudo = checksum::pseudo_header(headers.id.source, headers.id.destination, 6, length as u32);
    let sum = checksum::add(pseudo, checksum::sum(&frame.bytes()[l4..l4 + length]));
    bytes[l4 + 16..l4 + 18].copy_from_slice(&(!sum).to_be_bytes());
}

fn lengths(frames: &[Frame]) -> Vec<usize> {
    frames.iter().map(|frame| frame.len() - usize::from(Headers::parse(frame.bytes()).unwrap().payload)).collect()
}

#[test]
fn a_train_becomes_what_was_cut() {
    for whole in [tcp4(ACK | PSH, 5300, 1000), tcp6(ACK | PSH, 5300, 1000)] {
        let frames = joined(&pieces(&whole));
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].bytes(), whole.bytes());
        assert_eq!(frames[0].offload, whole.offload);
    }
}

#[test]
fn a_single_segment_stays_as_it_is() {
    let segment = pieces(&tcp4(ACK, 100, 1000)).remove(0);
    let frames = joined(std::slice::from_ref(&segment));
    assert_eq!(frames[0].bytes(), segment);
    assert_eq!(frames[0].offload, Offload::NONE);
}

#[test]
fn an_end_ends_the_train() {
    let whole = tcp4(ACK, 3000, 1000);
    for end in [PSH, FIN, PSH | FIN] {
        let frames = with_second_changed(&whole, |second| second[47] |= end);
        assert_eq!(lengths(&frames), [2000, 1000]);
        assert_eq!(frames[0].bytes()[47], ACK | end);
    }
    let frames = with_second_changed(&whole, |second| second[17] -= 1);
    assert_eq!(lengths(&frames), [1999, 1000], "a short segment");
    let mut segments = pieces(&whole);
    segments[0][47] |= PSH;
    repair(&mut segments[0]);
    assert_eq!(lengths(&joined(&segments)), [1000, 2000], "the first ends already");
}

#[test]
fn what_a_piece_could_not_have_stays_apart() {
    let whole = tcp4(ACK, 3000, 1000);
    type Change = fn(&mut [u8]);
    let changes: [(&str, Change); 14] = [
        ("another sender", |second| second[11] ^= 1),
        ("congestion experienced", |second| second[15] |= 3),
        ("another class", |second| second[15] |= 0x20),
        ("may be fragmented", |second| second[20] = 0),
        ("another hop limit", |second| second[22] -= 1),
        ("another host", |second| second[29] ^= 1),
        ("another port", |second| second[35] ^= 1),
        ("a gap", |second| second[41] ^= 1),
        ("another acknowledgement", |second| second[45] ^= 1),
        ("another window", |second| second[48] ^= 1),
        ("urgent", |second| second[47] |= 0x20),
        ("a reset", |second| second[47] |= 4),
        ("congestion answered", |second| second[47] |= CWR),
        ("congestion echoed", |second| second[47] |= ECE),
    ];
    for (name, change) in changes {
        let frames = with_second_changed(&whole, change);
        assert!(lengths(&frames).starts_with(&[1000]), "{name}: {:?}", lengths(&frames));
        assert!(frames[0].offload.segmentation.is_none(), "{name}");
        assert!(frames.len() > 1, "{name}");
    }
}

#[test]
fn identification_counts_where_fragments_are_possible() {
    let mut segments = pieces(&tcp4(ACK, 3000, 1000));
    segments[1][18] ^= 0x55;
    repair(&mut segments[1]);
    assert_eq!(joined(&segments).len(), 1, "it means nothing if nobody may fragment");
    for segment in &mut segments {
        segment[20] = 0;
        repair(segment);
    }
    assert_eq!(lengths(&joined(&segments)), [1000, 1000, 1000]);
    segments[1][18] ^= 0x55;
    repair(&mut segments[1]);
    assert_eq!(lengths(&joined(&segments)), [3000], "they count upwards again");
}

#[test]
fn the_answer_to_congestion_stays_on_the_first() {
    let mut whole = tcp4(ACK | CWR, 3000, 1000);
    let frames = joined(&pieces(&whole));
    assert_eq!(frames[0].bytes(), whole.bytes());
    let segmentation = whole.offload.segmentation.as_mut().unwrap();
    segmentation.kind = SegmentationKind::Tcp4 { ecn: true };
    assert_eq!(frames[0].offload, whole.offload);
}

#[test]
fn a_wrong_checksum_passes_alone_and_unchanged() {
    for bad in 0..3 {
        let mut segments = pieces(&tcp4(ACK, 3000, 1000));
        segments[bad][100] ^= 1;
        let frames = joined(&segments);
        let alone = frames.iter().find(|frame| frame.bytes() == segments[bad]).expect("it was changed");
        assert_eq!(alone.offload, Offload::NONE);
        assert!(!is_right(alone.bytes()));
        assert_eq!(lengths(&frames).iter().sum::<usize>(), 3000);
    }
}

#[test]
fn padding_is_no_payload() {
    let whole = tcp4(ACK, 2, 1);
    let mut segments = pieces(&whole);
    for segment in &mut segments {
        segment.resize(60, 0xee);
    }
    let frames = joined(&segments);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].bytes(), whole.bytes());
}

#[test]
fn a_train_ends_where_an_ip_packet_must() {
    let mut segments = pieces(&tcp4(ACK, 60_000, 1000));
    let mut more = tcp4(ACK, 20_000, 1000);
    let next = 0xffff_ff00u32.wrapping_add(60_000);
    more.bytes_mut()[38..42].copy_from_slice(&next.to_be_bytes());
    segments.extend(pieces(&more));
    assert_eq!(lengths(&joined(&segments)), [65_000, 15_000]);
}

#[test]
fn other_frames_are_left_alone() {
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
    let segments = [arp.clone(), arp, vec![], vec![1; 20], pieces(&tcp4(ACK, 10, 10)).remove(0), vec![]];
    let frames = joined(&segments);
    assert_eq!(frames.len(), segments.len());
    for (frame, segment) in frames.iter().zip(&segments) {
        assert_eq!(frame.bytes(), segment);
    }
}

fn whole() -> impl Strategy<Value = Frame> {
    let flags = prop_oneof![Just(ACK), Just(ACK | PSH), Just(ACK | FIN), Just(ACK | ECE)];
    (any::<bool>(), flags, 2usize..60_000, 100u16..9000).prop_map(|(v4, flags, length, size)| match v4 {
        true => tcp4(flags, length, size),
        false => tcp6(flags, length, size),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_and_joining_is_a_circle(whole in whole()) {
        let segments = pieces(&whole);
        prop_assert!(segments.iter().all(|segment| is_right(segment)));
        let frames = joined(&segments);
        prop_assert_eq!(frames.len(), 1);
        if segments.len() > 1 {
            prop_assert_eq!(frames[0].bytes(), whole.bytes());
            prop_assert_eq!(frames[0].offload, whole.offload);
        } else {
            prop_assert_eq!(frames[0].bytes(), &segments[0][..]);
        }
    }

    /// Whatever is lost or swapped on the way, what is joined and cut again is exactly what arrived.
    #[test]
    fn joining_never_changes_what_arrived(whole in whole(), order in proptest::collection::vec(any::<prop::sample::Index>(), 1..80)) {
        let segments = pieces(&whole);
        let arrived: Vec<_> = order.iter().map(|index| index.get(&segments).clone()).collect();
        let frames = joined(&arrived);
        let mut passed = Vec::new();
        for frame in &frames {
            match frame.offload.segmentation {
                Some(_) => passed.extend(pieces(frame)),
                None => passed.push(frame.bytes().to_vec()),
            }
        }
        prop_assert_eq!(passed, arrived);
    }

    #[test]
    fn any_bytes_are_taken_without_a_panic(segments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..5)) {
        let frames = joined(&segments);
        prop_assert_eq!(frames.len(), segments.len());
    }

    /// Damage anywhere in a segment does not make a sound train of it.
    #[test]
    fn damage_is_never_joined(at in 0usize..1054, bit in 0u8..8) {
        let mut segments = pieces(&tcp4(ACK, 3000, 1000));
        segments[1][at] ^= 1 << bit;
        for frame in joined(&segments).iter().filter(|frame| frame.offload.segmentation.is_some()) {
            for piece in pieces(frame) {
                prop_assert!(piece != segments[1] || is_right(&piece));
            }
        }
    }
}
