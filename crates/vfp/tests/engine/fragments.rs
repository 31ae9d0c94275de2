//! Packets in pieces.

use vfp::DropReason;
use wire::{Frame, Headers};

use super::bench::{Carries, assert_checksums, frame, ip, mac};
use super::frames::pieces;
use super::outside::Node;

fn whole(v4: bool) -> Vec<u8> {
    let (from, to) = if v4 { ("10.0.0.1", "8.8.8.8") } else { ("fd00::1", "2001:db8::8") };
    frame((mac(1), mac(9)), ip(from), ip(to), Carries::Udp(1000, 53), &[7; 200])
}

/// The packet that two pieces are.
pub(crate) fn joined(first: &Frame, later: &Frame) -> Vec<u8> {
    let headers = |frame: &Frame| Headers::parse(frame.bytes()).expect("it is sound");
    let v4 = first.bytes()[14] >> 4 == 4;
    let mut bytes = first.bytes()[..headers(first).end as usize].to_vec();
    bytes.extend(&later.bytes()[usize::from(headers(later).l4)..headers(later).end as usize]);
    if v4 {
        let length = (bytes.len() - 14) as u16;
        bytes[16..18].copy_from_slice(&length.to_be_bytes());
        bytes[20..22].fill(0);
        super::frames::repair(&mut bytes);
    } else {
        bytes[20] = bytes[54];
        bytes.drain(54..62);
        let length = (bytes.len() - 54) as u16;
        bytes[18..20].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

#[test]
fn all_pieces_are_translated_alike() {
    for v4 in [true, false] {
        let mut node = Node::new(61000..=61999);
        let [first, later] = pieces(&whole(v4), 64, 9);
        let (_, first, came) = node.bench.pass(node.pod, &first);
        let (egress, later, also) = node.bench.pass(node.pod, &later);
        assert_eq!(egress.port, node.uplink);
        assert_eq!((came.id.source, came.id.source), (also.id.source, ip(if v4 { "192.168.0.1" } else { "2001:db8::1" })));
        assert_checksums(&joined(&first, &later));
        assert_eq!(node.bench.switch.counters().connections_made, 1);
    }
}

#[test]
fn answers_in_pieces_come_back() {
    for v4 in [true, false] {
        let mut node = Node::new(61000..=61999);
        let came = node.bench.pass(node.pod, &whole(v4)).2;
        let id = came.id.reverse();
        let answer = frame((mac(254), mac(100)), id.source, id.destination, Carries::Udp(53, id.destination_port), &[9; 200]);
        let [first, later] = pieces(&answer, 64, 3);
        let (_, first, _) = node.bench.pass(node.uplink, &first);
        let (egress, later, _) = node.bench.pass(node.uplink, &later);
        assert_eq!(egress.port, node.pod);
        let back = joined(&first, &later);
        assert_checksums(&back);
        assert_eq!(Headers::parse(&back).expect("it is sound").id.destination_port, 1000);
    }
}

#[test]
fn a_later_piece_without_the_first_is_dropped() {
    let mut node = Node::new(61000..=61999);
    let [first, later] = pieces(&whole(true), 64, 9);
    assert_eq!(node.bench.fail(node.pod, &later), DropReason::FragmentWithoutFirst);
    node.bench.pass(node.pod, &first);
    let [_, other] = pieces(&whole(true), 64, 10);
    assert_eq!(node.bench.fail(node.pod, &other), DropReason::FragmentWithoutFirst, "it is of another packet");
    assert_eq!(node.bench.fail(node.uplink, &later), DropReason::FragmentWithoutFirst, "it came by another port");
    node.bench.pass(node.pod, &later);
    node.bench.wait(31);
    node.bench.sweep();
    assert_eq!(node.bench.fail(node.pod, &later), DropReason::FragmentWithoutFirst, "it comes too late");
}

#[test]
fn a_port_can_have_so_many_packets_in_pieces_and_no_more() {
    let mut node = Node::new(61000..=61999);
    let second = node.add_pod(2, vec![]);
    let first = |id: u16| pieces(&whole(true), 64, id)[0].clone();
    for id in 0..1024 {
        node.bench.pass(node.pod, &first(id));
    }
    let local = frame((mac(2), mac(9)), ip("10.0.0.2"), ip("10.0.0.1"), Carries::Udp(1000, 53), &[7; 200]);
    let [local_first, local_later] = pieces(&local, 64, 1);
    node.bench.pass(second, &local_first);
    let later = |id: u16| pieces(&whole(true), 64, id)[1].clone();
    node.bench.pass(node.pod, &later(0));
    node.bench.pass(node.pod, &first(2000));
    assert_eq!(node.bench.fail(node.pod, &later(0)), DropReason::FragmentWithoutFirst, "the oldest made room");
    node.bench.pass(node.pod, &later(1));
    node.bench.pass(node.pod, &later(2000));
    node.bench.pass(second, &local_later);
}
