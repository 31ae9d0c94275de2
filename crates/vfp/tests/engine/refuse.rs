//! Senders that are told.

use etherparse::{PacketHeaders, TransportHeader};
use vfp::{Action, Conditions, DropReason, LayerSpec, PortId, Service, Stage};
use wire::icmp::Problem;
use wire::{Frame, Headers};

use super::bench::{Bench, Carries, assert_sound, frame, ip, layer, mac, rule, tcp};
use super::errors::quoted;
use super::frames::pieces;
use super::outside::Node;
use super::vip::{ask, ask_with, headers, kinds, one, vip};

fn refusing() -> LayerSpec {
    layer("service", true, vec![rule("closed", 1, Conditions::any(), Action::Refuse)], vec![])
}

/// Whether a sender was told, and by what.
fn told(bench: &mut Bench, port: PortId, bytes: &[u8], reason: DropReason) -> Option<(Frame, Headers)> {
    let before = bench.switch.counters().errors_sent;
    assert_eq!(bench.send(port, bytes).drop_reason(), Some(reason));
    let left = bench.out.sent.pop_front();
    assert!(bench.out.sent.is_empty());
    assert_eq!(bench.switch.counters().errors_sent - before, u64::from(left.is_some()));
    let (egress, frame) = left?;
    assert_eq!((egress.port, egress.encapsulation), (port, None));
    assert_sound(&frame);
    let headers = Headers::parse(frame.bytes()).expect("it is sound");
    let asked = super::vip::headers(bytes);
    assert_eq!((headers.id.source, headers.id.destination), (asked.id.destination, asked.id.source));
    assert_eq!((headers.source_mac, headers.destination_mac), (asked.destination_mac, asked.source_mac));
    Some((frame, headers))
}

fn flags(frame: &Frame) -> (bool, bool) {
    match PacketHeaders::from_ethernet_slice(frame.bytes()).expect("it is sound").transport {
        Some(TransportHeader::Tcp(tcp)) => (tcp.rst, tcp.ack),
        other => panic!("no TCP: {other:?}"),
    }
}

#[test]
fn tcp_gets_a_reset_and_others_an_error() {
    for (v4, protocol) in kinds() {
        // A service without backends does the same, for a reason of its own.
        for (layer, reason) in [(refusing(), DropReason::Refused), (one(v4, protocol, Service::default()), DropReason::NoBackend)] {
            let mut node = Node::new(61000..=61999);
            node.refilter(vec![layer]);
            let asked = match protocol {
                6 => ask_with(1, v4, Carries::Tcp(1000, 80, 2), b""),
                _ => ask(1, v4, protocol, 1000),
            };
            let (frame, told) = told(&mut node.bench, node.pod, &asked, reason).expect("it is told");
            if protocol == 6 {
                assert_eq!((told.id, flags(&frame)), (headers(&asked).id.reverse(), (true, true)));
            } else {
                assert_eq!(quoted(&frame).1, headers(&asked).id);
                assert_eq!(frame.bytes()[usize::from(told.l4)..][..2], if v4 { [3, 3] } else { [1, 4] });
            }
            assert!(node.bench.switch.flows().is_empty(), "nothing is remembered");
        }
    }
}

#[test]
fn what_must_not_be_answered_is_not() {
    for v4 in [true, false] {
        let mut node = Node::new(61000..=61999);
        node.refilter(vec![refusing()]);
        let reset = ask_with(1, v4, Carries::Tcp(1000, 80, 4), b"");
        assert!(told(&mut node.bench, node.pod, &reset, DropReason::Refused).is_none());
        let [first, later] = pieces(&ask_with(1, v4, Carries::Udp(1000, 80), &[7; 200]), 64, 3);
        assert!(told(&mut node.bench, node.pod, &first, DropReason::Refused).is_some(), "the first piece is enough");
        assert!(told(&mut node.bench, node.pod, &later, DropReason::Refused).is_none());
        let about = Frame::from_bytes(&frame((mac(9), mac(1)), vip(v4), super::vip::pod(1, v4), Carries::Udp(80, 1), b"x"));
        let mut error = Frame::default();
        let made = wire::icmp::error(about.bytes(), &headers(about.bytes()), Problem::HopLimit, super::vip::pod(1, v4), mac(1), &mut error);
        assert!(made && told(&mut node.bench, node.pod, error.bytes(), DropReason::Refused).is_none());
        let echo = ask_with(1, v4, Carries::Echo(7), b"");
        assert!(told(&mut node.bench, node.pod, &echo, DropReason::Refused).is_some());
    }
}

#[test]
fn groups_are_not_told() {
    let mut node = Node::new(61000..=61999);
    node.refilter(vec![refusing()]);
    let group = frame((mac(1), wire::MacAddress([1, 0, 0x5e, 0, 0, 1])), ip("10.0.0.1"), ip("224.0.0.1"), Carries::Udp(1, 2), b"x");
    assert_eq!(node.bench.send(node.pod, &group).drop_reason(), Some(DropReason::Refused));
    assert!(node.bench.out.sent.is_empty());
}

#[test]
fn the_receivers_port_and_the_domain_can_refuse_too() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let asked = tcp((1, 9), ("10.0.0.1", 1000), ("10.0.0.2", 80), 2);
    let inward = layer("acl", true, vec![], vec![rule("closed", 1, Conditions::any(), Action::Refuse)]);
    let spec =
        super::bench::port_spec("b", vfp::PortKind::Nic, bench.first_domain(), 2, &["10.0.0.2"], vfp::ProgramSpec { layers: vec![inward] });
    bench.switch.change_port(b, spec.clone()).expect("the port");
    assert!(told(&mut bench, a, &asked, DropReason::Refused).is_some());
    bench.switch.change_port(b, vfp::PortSpec { program: vfp::ProgramSpec::default(), ..spec }).expect("the port");
    let closed = rule("to 10.0.0.2", 10, Conditions::to(ip("10.0.0.2")), Action::Refuse);
    bench.switch.put_rules(bench.first_domain(), [(Stage::ForwardOut, closed)]).expect("the domain");
    assert!(told(&mut bench, a, &asked, DropReason::Refused).is_some());
}

#[test]
fn who_came_through_a_tunnel_is_told_through_it() {
    let mut bench = Bench::new();
    let domain = bench.domain("net");
    let layers = vec![refusing()];
    let tunnel = bench.port("tunnel", vfp::PortKind::Tunnel, domain, 9, &[], vfp::ProgramSpec { layers });
    let outer =
        wire::Encapsulation { kind: wire::TunnelKind::Vxlan, vni: 7, local: ip("192.168.0.1"), remote: ip("192.168.0.2"), port: 4789 };
    let asked = tcp((1, 2), ("10.0.1.1", 1000), ("10.0.0.2", 80), 2);
    assert_eq!(bench.send_wrapped(tunnel, &asked, Some(&outer)).drop_reason(), Some(DropReason::Refused));
    let (egress, _, told) = bench.next();
    assert_eq!((egress.port, egress.encapsulation, told.id), (tunnel, Some(outer), headers(&asked).id.reverse()));
}
