//! Addresses and ports that change on the way out, and change back.

use proptest::prelude::*;
use vfp::{Action, Conditions, DropReason, LayerSpec, Outcome};
use wire::{Frame, Headers, Ip};

use super::bench::{Carries, assert_sound, frame, ip, layer, mac, rule, tcp, udp};
use super::frames::partial;
use super::outside::{Node, service};

/// What the receiver of a packet answers.
pub(crate) fn answer_to(came: &Headers, payload: &[u8]) -> Vec<u8> {
    let id = came.id;
    let carries = match id.protocol {
        6 => Carries::Tcp(id.destination_port, id.source_port, 18),
        17 => Carries::Udp(id.destination_port, id.source_port),
        132 => Carries::Sctp(id.destination_port, id.source_port),
        _ => Carries::EchoReply(id.source_port),
    };
    frame((came.destination_mac, came.source_mac), id.destination, id.source, carries, payload)
}

fn modify(destination: Ip, port: u16) -> LayerSpec {
    let modify = Action::Modify {
        source_mac: None,
        destination_mac: None,
        source: None,
        destination: Some(destination),
        source_port: None,
        destination_port: Some(port),
    };
    let of_family = Conditions { ether_types: vec![if destination.is_v4() { 0x800 } else { 0x86dd }], ..Conditions::any() };
    layer("dnat", true, vec![rule("moved", 1, of_family, modify)], vec![])
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nat,
    Modify,
    Redirect,
}

/// Layers that translate what a pod sends to 9.9.9.9 (or 10.96.0.1), and the port that the receiver is behind.
fn translating(node: &Node, kind: Kind, v4: bool) -> Vec<LayerSpec> {
    let (to, backend) = if v4 { ("10.0.0.2", "10.0.0.2") } else { ("fd00::2", "fd00::2") };
    match kind {
        Kind::Nat => vec![node.nat(None)],
        Kind::Modify => vec![modify(ip(to), 8080)],
        Kind::Redirect => vec![service(&[backend])],
    }
}

fn round_trip(kind: Kind, v4: bool, carries: Carries, payload: &[u8], offload: bool) {
    let mut node = Node::new(61000..=61999);
    node.refilter(translating(&node, kind, v4));
    node.add_pod(2, vec![]);
    let (from, to) = if v4 { (ip("10.0.0.1"), ip("10.96.0.1")) } else { (ip("fd00::1"), ip("fd96::1")) };
    let sent = frame((mac(1), mac(9)), from, to, carries, payload);
    let headers = Headers::parse(&sent).expect("it is sound");
    let with = |bytes: &[u8]| if offload { partial(bytes) } else { Frame::from_bytes(bytes) };
    for _ in 0..2 {
        assert!(matches!(node.bench.send_frame(node.pod, &with(&sent)).outcome, Outcome::Forwarded(_)));
        let (egress, left, came) = node.bench.next();
        assert_ne!(came.id, headers.id, "it is translated");
        assert_sound(&left);
        assert_eq!(left.bytes()[usize::from(came.payload)..], sent[usize::from(headers.payload)..]);
        let verdict = node.bench.send_frame(egress.port, &with(&answer_to(&came, payload)));
        assert!(matches!(verdict.outcome, Outcome::Forwarded(_)), "{verdict:?}");
        let (egress, back, _) = node.bench.next();
        assert_eq!(egress.port, node.pod);
        let expected = with(&answer_to(&headers, payload));
        assert_eq!(back.bytes()[12..], expected.bytes()[12..], "it comes back as if nothing had been");
        assert_eq!(back.bytes()[..6], mac(1).0);
    }
}

fn carried() -> impl Strategy<Value = Carries> {
    prop_oneof![
        (1..u16::MAX).prop_map(|port| Carries::Tcp(port, 80, 16)),
        (1..u16::MAX).prop_map(|port| Carries::Udp(port, 80)),
        any::<u16>().prop_map(Carries::Echo),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_back_is_what_was_there(
        kind in prop_oneof![Just(Kind::Nat), Just(Kind::Modify), Just(Kind::Redirect)],
        v4 in any::<bool>(),
        carries in carried(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        offload in any::<bool>(),
    ) {
        let query = matches!(carries, Carries::Echo(_));
        prop_assume!(!query || matches!(kind, Kind::Nat));
        round_trip(kind, v4, carries, &payload, offload && !query);
    }
}

#[test]
fn a_datagram_without_a_checksum_stays_without() {
    let mut node = Node::new(61000..=61999);
    let mut out = udp((1, 9), ("10.0.0.1", 5353), ("8.8.8.8", 53), b"question");
    out[40..42].fill(0);
    let (_, left, headers) = node.bench.pass(node.pod, &out);
    assert_eq!(left.bytes()[40..42], [0, 0]);
    assert_ne!(headers.id.source_port, 5353);
}

#[test]
fn sctp_keeps_its_ports() {
    let mut node = Node::new(61000..=61999);
    let out = |last: u8| frame((mac(last), mac(9)), Ip(ip("10.0.0.0").0 + u128::from(last)), ip("8.8.8.8"), Carries::Sctp(7, 9), b"chunk");
    for _ in 0..3 {
        let came = node.bench.pass(node.pod, &out(1)).2;
        assert_eq!((came.id.source, came.id.source_port), (ip("192.168.0.1"), 7));
        let back = node.bench.pass(node.uplink, &answer_to(&came, b"chunk")).2;
        assert_eq!((back.id.destination, back.id.destination_port), (ip("10.0.0.1"), 7));
        // A change of policy makes it walk again.
        node.refilter(vec![node.nat(None)]);
    }
    assert_eq!((node.leases(), node.bench.switch.counters().connections_revoked), (0, 0));
    let second = node.add_pod(2, vec![node.nat(None)]);
    assert_eq!(node.bench.fail(second, &out(2)), DropReason::NoNatPorts, "the name is taken, and there is no other");
}

#[test]
fn ports_run_out_towards_one_destination_and_not_towards_another() {
    let mut node = Node::new(61000..=61007);
    let to = |node: &mut Node, port: u16, address: &str| node.bench.send(node.pod, &udp((1, 9), ("10.0.0.1", port), (address, 53), b"q"));
    let forwarded = (1..=20).filter(|port| to(&mut node, *port, "8.8.8.8").drop_reason().is_none()).count();
    assert_eq!(forwarded, 4, "half is left to others");
    let refused = to(&mut node, 21, "8.8.8.8");
    assert_eq!((refused.drop_reason(), node.bench.place(&refused).as_str()), (Some(DropReason::NoNatPorts), "nat/out/v4"));
    assert_eq!(to(&mut node, 1, "8.8.4.4").drop_reason(), None);
    assert_eq!(node.leases(), 5);
}

#[test]
fn one_pods_flood_leaves_ports_for_another() {
    let mut node = Node::new(61000..=61031);
    let second = node.add_pod(2, vec![node.nat(None)]);
    for port in 1..100 {
        node.bench.send(node.pod, &udp((1, 9), ("10.0.0.1", port), ("8.8.8.8", 53), b"q"));
    }
    let left = (1..100).filter(|port| {
        let bytes = udp((2, 9), ("10.0.0.2", *port), ("8.8.8.8", 53), b"q");
        node.bench.send(second, &bytes).drop_reason().is_none()
    });
    assert_eq!(left.count(), 8);
}

#[test]
fn a_rule_can_say_how_many_ports_one_sender_has() {
    let mut node = Node::new(61000..=61999);
    node.refilter(vec![node.nat(Some(3))]);
    let taken = (1..10).filter(|port| {
        let bytes = udp((1, 9), ("10.0.0.1", *port), ("8.8.8.8", 53), b"q");
        node.bench.send(node.pod, &bytes).drop_reason().is_none()
    });
    assert_eq!(taken.count(), 3);
}

#[test]
fn ports_come_back_when_connections_expire() {
    let mut node = Node::new(61000..=61001);
    let out = |port: u16| udp((1, 9), ("10.0.0.1", port), ("8.8.8.8", 53), b"q");
    node.bench.pass(node.pod, &out(1));
    assert_eq!(node.bench.fail(node.pod, &out(2)), DropReason::NoNatPorts);
    node.bench.wait(31);
    node.bench.sweep();
    assert_eq!(node.leases(), 0);
    node.bench.pass(node.pod, &out(2));
}

#[test]
fn who_is_not_sent_keeps_no_port() {
    let mut node = Node::new(61000..=61999);
    node.bench.switch.set_neighbour(node.underlay, ip("192.168.0.254"), None).expect("the underlay");
    for _ in 0..3 {
        assert_eq!(node.bench.fail(node.pod, &udp((1, 9), ("10.0.0.1", 1), ("8.8.8.8", 53), b"q")), DropReason::NoNeighbour);
    }
    assert_eq!(node.leases(), 0);
}

#[test]
fn another_pool_takes_over_and_the_old_one_gets_its_port_back() {
    let mut node = Node::new(61000..=61999);
    let out = tcp((1, 9), ("10.0.0.1", 1), ("8.8.8.8", 53), 16);
    node.bench.pass(node.pod, &out);
    let old = std::mem::replace(&mut node.pool, node.bench.switch.add_pool(vfp::NatPoolSpec { ports: 50000..=50009 }));
    node.refilter(vec![node.nat(None)]);
    assert!((50000..=50009).contains(&node.bench.pass(node.pod, &out).2.id.source_port));
    assert_eq!((node.bench.switch.pool_usage(old), node.leases()), (Some(0), 1));
}

#[test]
fn a_source_is_translated_once() {
    let mut node = Node::new(61000..=61999);
    node.refilter(vec![node.nat(None), node.nat(None)]);
    assert_eq!(node.bench.fail(node.pod, &udp((1, 9), ("10.0.0.1", 1), ("8.8.8.8", 53), b"q")), DropReason::RuleLoop);
    assert_eq!(node.leases(), 0);
}

#[test]
fn a_family_that_the_rule_is_not_for_is_refused() {
    let mut node = Node::new(61000..=61999);
    let action = Action::SourceNat { pool: node.pool, address: ip("192.168.0.1"), underlay: node.underlay, most: None };
    node.refilter(vec![layer("nat", true, vec![rule("all", 1, Conditions::any(), action)], vec![])]);
    assert_eq!(node.bench.fail(node.pod, &udp((1, 9), ("fd00::1", 1), ("2001:db8::8", 53), b"q")), DropReason::UnsupportedProtocol);
}

#[test]
fn two_connections_whose_answers_would_look_alike_do_not_share() {
    let mut node = Node::new(61000..=61999);
    let to_one = modify(ip("10.0.0.2"), 8080);
    node.refilter(vec![to_one]);
    let backend = node.add_pod(2, vec![]);
    let seen = ["9.9.9.9", "9.9.9.8"].map(|to| {
        let came = node.bench.pass(node.pod, &tcp((1, 9), ("10.0.0.1", 1000), (to, 80), 16)).2;
        let (egress, _, got) = node.bench.pass(backend, &answer_to(&came, b"answer"));
        assert_eq!((egress.port, got.id.source, got.id.destination_port), (node.pod, ip(to), 1000));
        came.id.source_port
    });
    assert!(seen[0] == 1000 && seen[1] != 1000, "{seen:?}");
}

#[test]
fn a_service_does_not_answer_what_has_no_port() {
    let mut node = Node::new(61000..=61999);
    let list = vec![vfp::Backend { address: ip("10.0.0.2"), port: 8080 }];
    let service = vfp::Service { backends: vfp::Backends::new(list), ..vfp::Service::default() };
    let redirect = Action::Redirect(std::sync::Arc::new(service));
    node.refilter(vec![layer("service", true, vec![rule("all", 1, Conditions::any(), redirect)], vec![])]);
    let ping = frame((mac(1), mac(9)), ip("10.0.0.1"), ip("10.96.0.1"), Carries::Echo(3), b"");
    assert_eq!(node.bench.fail(node.pod, &ping), DropReason::UnsupportedProtocol);
}
