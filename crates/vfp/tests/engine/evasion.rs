//! Packets made to slip past a list: in pieces, behind extension headers, with flags that nobody sends.

use vfp::{Conditions, DropReason, PortId};

use super::bench::{Bench, Carries, allow, block, frame, ip, layer, mac};
use super::frames::{extended, pieces, repair};

/// A port that a list lets in, and one that it does not.
const OPEN: u16 = 80;
const SHUT: u16 = 22;

/// The second NIC lets in what goes to one port, and answers.
fn guarded() -> (Bench, PortId, PortId) {
    let open = Conditions { protocols: vec![6, 17], destination_ports: vec![OPEN..=OPEN], ..Conditions::default() };
    let list = layer("acl", true, vec![], vec![allow("open", 1, open), block("rest", 9, Conditions::any())]);
    let (bench, b, a) = Bench::pair(vec![list]);
    (bench, a, b)
}

fn ends(v4: bool) -> (wire::Ip, wire::Ip) {
    if v4 { (ip("10.0.0.2"), ip("10.0.0.1")) } else { (ip("fd00::2"), ip("fd00::1")) }
}

fn segment(v4: bool, port: u16, flags: u8) -> Vec<u8> {
    let (from, to) = ends(v4);
    frame((mac(2), mac(1)), from, to, Carries::Tcp(5000, port, flags), &[7; 80])
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

#[test]
fn a_first_piece_must_have_the_whole_transport_header() {
    for v4 in [true, false] {
        let (mut bench, a, _) = guarded();
        for port in [SHUT, OPEN] {
            let [tiny, rest] = pieces(&segment(v4, port, 2), 8, 7);
            assert_eq!(bench.fail(a, &tiny), DropReason::Truncated, "to {port}");
            assert_eq!(bench.fail(a, &rest), DropReason::Fragment, "to {port}");
        }
        let [first, later] = pieces(&segment(v4, OPEN, 2), 24, 8);
        bench.pass(a, &first);
        bench.pass(a, &later);
    }
}

#[test]
fn a_later_piece_does_not_write_over_what_was_judged() {
    for v4 in [true, false] {
        let (mut bench, a, _) = guarded();
        let [first, _] = pieces(&segment(v4, OPEN, 2), 24, 7);
        bench.pass(a, &first);
        // It begins at the eighth byte, and would bring other flags.
        let [_, overlapping] = pieces(&segment(v4, SHUT, 18), 8, 7);
        assert_eq!(bench.fail(a, &overlapping), DropReason::Fragment);
        // A second first piece, to the port that is shut, is judged as the first was.
        let [second, rest] = pieces(&segment(v4, SHUT, 2), 24, 7);
        assert_eq!(bench.fail(a, &second), DropReason::AclBlock);
        assert_eq!(bench.fail(a, &rest), DropReason::AclBlock, "what follows belongs to it");
    }
}

#[test]
fn later_pieces_alone_reach_nobody() {
    for v4 in [true, false] {
        let (mut bench, a, _) = guarded();
        for port in [SHUT, OPEN] {
            let [_, later] = pieces(&segment(v4, port, 2), 24, 9);
            assert_eq!(bench.fail(a, &later), DropReason::FragmentWithoutFirst);
        }
    }
}

#[test]
fn extension_headers_hide_nothing() {
    let (mut bench, a, _) = guarded();
    let chains: [&[(u8, u8)]; 6] = [
        &[(HOP_BY_HOP, 0)],
        &[(DESTINATION, 4)],
        &[(ROUTING, 2)],
        &[(HOP_BY_HOP, 0), (ROUTING, 0), (DESTINATION, 1)],
        &[(DESTINATION, 0), (DESTINATION, 0), (DESTINATION, 0), (DESTINATION, 0), (DESTINATION, 0), (DESTINATION, 0)],
        &[(DESTINATION, 31), (DESTINATION, 31)],
    ];
    for chain in chains {
        assert_eq!(bench.fail(a, &extended(&segment(false, SHUT, 2), chain)), DropReason::AclBlock, "{chain:?}");
        bench.pass(a, &extended(&segment(false, OPEN, 2), chain));
    }
    let long = [(DESTINATION, 0); 20];
    assert_eq!(bench.fail(a, &extended(&segment(false, OPEN, 2), &long)), DropReason::ExtensionHeaders);
    // A header that says it is longer than the packet.
    let mut lying = extended(&segment(false, SHUT, 2), &[(DESTINATION, 0)]);
    lying[55] = 200;
    assert_eq!(bench.fail(a, &lying), DropReason::HeaderLength);
}

#[test]
fn extension_headers_in_pieces_hide_nothing() {
    let (mut bench, a, _) = guarded();
    // The chain goes on in the second piece, so that the first has no transport header.
    let split = extended(&segment(false, SHUT, 2), &[(DESTINATION, 3)]);
    let [first, later] = pieces(&split, 16, 7);
    assert_eq!(bench.fail(a, &first), DropReason::HeaderLength);
    assert_eq!(bench.fail(a, &later), DropReason::FragmentWithoutFirst);
    // The header of the piece stands behind others.
    let whole = segment(false, SHUT, 2);
    let [first, _] = pieces(&whole, 24, 7);
    assert_eq!(bench.fail(a, &extended(&first, &[(HOP_BY_HOP, 0)])), DropReason::AclBlock);
    // A piece in a piece.
    let [outer, _] = pieces(&first, 32, 8);
    assert_eq!(bench.fail(a, &outer), DropReason::ExtensionHeaders);
}

#[test]
fn odd_flags_begin_nothing_that_is_not_allowed() {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const PSH: u8 = 8;
    const ACK: u8 = 16;
    for v4 in [true, false] {
        let (mut bench, a, b) = guarded();
        for flags in [0, FIN, SYN, RST, ACK, SYN | FIN, SYN | RST, SYN | ACK, FIN | PSH, RST | ACK, FIN | ACK, SYN | FIN | RST | PSH | ACK]
        {
            assert_eq!(bench.fail(a, &segment(v4, SHUT, flags)), DropReason::AclBlock, "{flags:#x}");
        }
        assert_eq!(bench.switch.counters().connections_made, 0, "nothing is remembered of it");
        for flags in [SYN, ACK, PSH | ACK, FIN | ACK] {
            bench.pass(a, &segment(v4, OPEN, flags));
        }
        // The guarded NIC's own connections are answered, and only by whom they went to.
        let (theirs, own) = ends(v4);
        bench.pass(b, &frame((mac(1), mac(2)), own, theirs, Carries::Tcp(SHUT, 5000, SYN), b""));
        bench.pass(a, &segment(v4, SHUT, SYN | ACK));
        let other = frame((mac(2), mac(1)), theirs, own, Carries::Tcp(5001, SHUT, SYN | ACK), b"");
        assert_eq!(bench.fail(a, &other), DropReason::AclBlock);
    }
}

#[test]
fn options_of_ipv4_hide_nothing() {
    let (mut bench, a, _) = guarded();
    for port in [SHUT, OPEN] {
        let whole = segment(true, port, 2);
        let mut bytes = whole[..34].to_vec();
        bytes[14] = 0x4f;
        bytes.extend([1; 40]);
        bytes.extend(&whole[34..]);
        let length = (bytes.len() - 14) as u16;
        bytes[16..18].copy_from_slice(&length.to_be_bytes());
        repair(&mut bytes);
        match port {
            OPEN => _ = bench.pass(a, &bytes),
            _ => assert_eq!(bench.fail(a, &bytes), DropReason::AclBlock),
        }
    }
}

#[test]
fn what_is_inside_of_another_protocol_is_not_let_in_for_its_ports() {
    let (mut bench, a, _) = guarded();
    // IP in IP, GRE and whatever else: the list lets in TCP and UDP.
    for protocol in [4, 41, 47, 50, 59, 135, 253] {
        for v4 in [true, false] {
            let (from, to) = ends(v4);
            let inner = segment(v4, OPEN, 2);
            let bytes = frame((mac(2), mac(1)), from, to, Carries::Raw(protocol), &inner[14..]);
            assert_eq!(bench.fail(a, &bytes), DropReason::AclBlock, "protocol {protocol}");
        }
    }
}

#[test]
fn a_list_without_state_is_not_passed_by_pieces_either() {
    let shut = Conditions { protocols: vec![6], destination_ports: vec![SHUT..=SHUT], ..Conditions::default() };
    let list = layer("acl", false, vec![], vec![block("shut", 1, shut)]);
    let (mut bench, _, a) = Bench::pair(vec![list]);
    for v4 in [true, false] {
        let [first, later] = pieces(&segment(v4, SHUT, 2), 24, 5);
        assert_eq!(bench.fail(a, &first), DropReason::AclBlock);
        assert_eq!(bench.fail(a, &later), DropReason::AclBlock);
    }
}
