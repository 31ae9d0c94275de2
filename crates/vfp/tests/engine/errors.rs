//! ICMP errors about translated packets, in both directions.

use etherparse::PacketHeaders;
use vfp::{DropReason, Tier};
use wire::icmp::{self, Problem};
use wire::{Embedded, Frame, Headers, Ip};

use super::bench::{Carries, assert_sound, frame, ip, mac, tcp};
use super::outside::{Node, service};

/// An error about a frame, sent by somebody.
pub(crate) fn error(about: &Frame, from: Ip) -> Vec<u8> {
    let headers = Headers::parse(about.bytes()).expect("it is sound");
    let mut out = Frame::default();
    assert!(icmp::error(about.bytes(), &headers, Problem::PortUnreachable, from, headers.destination_mac, &mut out));
    out.bytes().to_vec()
}

/// Checks the error and the packet quoted in it, and answers whose the quoted packet is.
pub(crate) fn quoted(error: &Frame) -> (Headers, wire::FlowId) {
    assert_sound(error);
    let headers = Headers::parse(error.bytes()).expect("it is sound");
    let inside = &error.bytes()[usize::from(headers.payload)..headers.end as usize];
    let judged = PacketHeaders::from_ip_slice(inside).expect("it quotes a packet");
    if let Some(etherparse::NetHeaders::Ipv4(ip, _)) = judged.net {
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    }
    let mut whole = error.bytes()[..14].to_vec();
    whole.extend(inside);
    super::frames::assert_checksums(&whole);
    (headers, Embedded::parse(error.bytes(), &headers).expect("it quotes a packet").id)
}

fn translated(carries: Carries, v4: bool) {
    let mut node = Node::new(61000..=61999);
    let (from, to, router) = match v4 {
        true => (ip("10.0.0.1"), ip("8.8.8.8"), ip("172.16.0.1")),
        false => (ip("fd00::1"), ip("2001:db8::8"), ip("2001:db8:9::1")),
    };
    let sent = frame((mac(1), mac(9)), from, to, carries, b"something");
    let id = Headers::parse(&sent).expect("it is sound").id;
    let (_, left, _) = node.bench.pass(node.pod, &sent);
    for speaker in [router, to] {
        let (egress, back, _) = node.bench.pass(node.uplink, &error(&left, speaker));
        assert_eq!(egress.port, node.pod);
        let (headers, about) = quoted(&back);
        assert_eq!(about, id, "the sender knows its packet again");
        assert_eq!((headers.id.source, headers.id.destination, headers.destination_mac), (speaker, from, mac(1)));
    }
}

#[test]
fn an_error_from_outside_speaks_of_the_packet_as_its_sender_knows_it() {
    for v4 in [true, false] {
        for carries in [Carries::Tcp(1000, 80, 16), Carries::Udp(1000, 53), Carries::Echo(77), Carries::Sctp(5, 6)] {
            translated(carries, v4);
        }
    }
}

#[test]
fn an_error_of_the_pod_goes_out_as_its_packets_do() {
    let mut node = Node::new(61000..=61999);
    let came = node.bench.pass(node.pod, &frame((mac(1), mac(9)), ip("10.0.0.1"), ip("8.8.8.8"), Carries::Udp(1000, 53), b"q")).2;
    let answer = frame((mac(254), mac(100)), ip("8.8.8.8"), ip("192.168.0.1"), Carries::Udp(53, came.id.source_port), b"a");
    let (_, back, _) = node.bench.pass(node.uplink, &answer);
    let (egress, left, _) = node.bench.pass(node.pod, &error(&back, ip("10.0.0.1")));
    assert_eq!(egress.port, node.uplink);
    let (headers, about) = quoted(&left);
    assert_eq!((headers.id.source, headers.id.destination, headers.destination_mac), (ip("192.168.0.1"), ip("8.8.8.8"), mac(254)));
    assert_eq!(about, Headers::parse(&answer).expect("it is sound").id);
}

#[test]
fn an_error_of_a_backend_comes_from_the_service() {
    let mut node = Node::new(61000..=61999);
    node.refilter(vec![service(&["10.0.0.2"])]);
    let backend = node.add_pod(2, vec![]);
    let sent = tcp((1, 9), ("10.0.0.1", 1000), ("10.96.0.1", 80), 2);
    let (_, left, _) = node.bench.pass(node.pod, &sent);
    let (egress, back, _) = node.bench.pass(backend, &error(&left, ip("10.0.0.2")));
    let (headers, about) = quoted(&back);
    assert_eq!((egress.port, headers.id.source), (node.pod, ip("10.96.0.1")));
    assert_eq!(about, Headers::parse(&sent).expect("it is sound").id);
}

#[test]
fn an_error_about_nothing_known_is_an_ordinary_packet_and_never_translated() {
    let mut node = Node::new(61000..=61999);
    let stranger = frame((mac(9), mac(1)), ip("8.8.8.8"), ip("10.0.0.1"), Carries::Udp(1, 2), b"q");
    let about = Frame::from_bytes(&stranger);
    assert_eq!(node.bench.fail(node.pod, &error(&about, ip("10.0.0.1"))), DropReason::UnsupportedProtocol);
    let local = node.add_pod(2, vec![]);
    let about = Frame::from_bytes(&frame((mac(1), mac(2)), ip("10.0.0.1"), ip("10.0.0.2"), Carries::Udp(1, 2), b"q"));
    let verdict = node.bench.send(local, &error(&about, ip("10.0.0.2")));
    assert_eq!((verdict.drop_reason(), verdict.tier), (None, Tier::New));
    assert!(node.bench.switch.flows().is_empty(), "nothing answers an error, so nothing is remembered");
}

#[test]
fn an_error_that_quotes_nothing_is_malformed() {
    let mut node = Node::new(61000..=61999);
    let about = Frame::from_bytes(&tcp((1, 9), ("10.0.0.1", 1000), ("8.8.8.8", 80), 2));
    let mut bytes = error(&about, ip("8.8.8.8"));
    bytes[16..18].copy_from_slice(&28u16.to_be_bytes());
    super::frames::repair(&mut bytes);
    assert_eq!(node.bench.fail(node.uplink, &bytes[..42]), DropReason::Truncated);
}
