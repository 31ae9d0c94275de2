//! Services that give their clients another source.

use vfp::{Action, Conditions, DropReason, PortKind, ProgramSpec, Service, Stage, Tier};

use super::bench::{Carries, assert_checksums, assert_sound, frame, ip, layer, mac, port_spec, prefix, rule};
use super::errors::{error, quoted};
use super::fragments::joined;
use super::frames::pieces;
use super::outside::Node;
use super::translation::answer_to;
use super::vip::{as_node, ask, ask_with, at_vip, headers, kinds, node_address, one, plain, pod, redirect, vip};

fn hidden(node: &Node, list: &[u8], v4: bool) -> Service {
    Service { masquerade: as_node(node, v4, true), ..plain(list, v4) }
}

#[test]
fn the_backend_sees_the_node_and_the_client_the_service() {
    for (v4, protocol) in kinds() {
        for keep_destination in [false, true] {
            let mut node = Node::new(61000..=61999);
            let service = Service { keep_destination, ..hidden(&node, &[2], v4) };
            // What is translated outwards besides does not translate it again, nor does it leave by the underlay.
            node.refilter(vec![one(v4, protocol, service), node.nat(None)]);
            let backend = node.add_pod(2, vec![]);
            let sent = ask(1, v4, protocol, 1000);
            for tier in [Tier::New, Tier::Unified] {
                assert_eq!(node.bench.send(node.pod, &sent).tier, tier);
                let (egress, left, came) = node.bench.next();
                let to = if keep_destination { (vip(v4), 80) } else { (pod(2, v4), 8080) };
                assert_eq!((egress.port, came.id.source), (backend, node_address(v4)));
                assert_eq!((came.id.destination, came.id.destination_port), to);
                assert!((61000..=61999).contains(&came.id.source_port));
                assert_sound(&left);
                let (egress, back, got) = node.bench.pass(backend, &answer_to(&came, b"answer"));
                assert_eq!((egress.port, got.id), (node.pod, headers(&sent).id.reverse()));
                assert_sound(&back);
            }
            assert_eq!(node.leases(), 1);
            node.bench.wait(100_000);
            node.bench.sweep();
            assert_eq!(node.leases(), 0);
        }
    }
}

#[test]
fn no_two_connections_have_the_same_port_towards_one_backend() {
    let mut node = Node::new(61000..=61007);
    let service = hidden(&node, &[2], true);
    node.refilter(vec![one(true, 17, service.clone())]);
    node.add_pod(2, vec![]);
    let third = node.add_pod(3, vec![one(true, 17, service)]);
    let mut ports = std::collections::BTreeSet::new();
    let mut ask_from = |node: &mut Node, last: u8, port: u16| {
        let from = if last == 1 { node.pod } else { third };
        if node.bench.send(from, &ask(last, true, 17, port)).drop_reason().is_some() {
            return false;
        }
        assert!(ports.insert(node.bench.next().2.id.source_port), "it is nobody else's");
        true
    };
    let first = (1..20).filter(|port| ask_from(&mut node, 1, *port)).count();
    let second = (1..20).filter(|port| ask_from(&mut node, 3, *port)).count();
    assert_eq!((first, second), (4, 2), "each leaves as much as it takes");
}

#[test]
fn who_came_from_the_wire_may_go_back_there() {
    for (v4, protocol) in kinds() {
        let mut node = Node::new(61000..=61999);
        // A port of the node leads to a backend on another node; all who are not here are behind the uplink.
        let service = hidden(&node, &[77], v4);
        let program = ProgramSpec { layers: vec![one(v4, protocol, service)] };
        let spec = port_spec("uplink", PortKind::Uplink, node.domain, 100, &[], program);
        node.bench.switch.change_port(node.uplink, spec).expect("the uplink");
        let forward = Action::Forward { port: node.uplink, source_mac: Some(mac(100)), destination_mac: Some(mac(254)) };
        for everywhere in ["0.0.0.0/0", "::/0"] {
            let outside = rule(everywhere, 1000, Conditions::to_prefix(prefix(everywhere)), forward.clone());
            node.bench.switch.put_rules(node.domain, [(Stage::ForwardIn, outside)]).expect("the domain");
        }
        let client = ip(if v4 { "203.0.113.5" } else { "2001:db8:5::5" });
        let sent = frame((mac(254), mac(100)), client, vip(v4), super::vip::carries(protocol, 1000), b"q");
        for tier in [Tier::New, Tier::Unified] {
            assert_eq!(node.bench.send(node.uplink, &sent).tier, tier);
            let (egress, left, came) = node.bench.next();
            assert_eq!((egress.port, came.id.source, came.id.destination), (node.uplink, node_address(v4), pod(77, v4)));
            assert_sound(&left);
            let (egress, back, got) = node.bench.pass(node.uplink, &answer_to(&came, b"a"));
            assert_eq!((egress.port, got.id), (node.uplink, headers(&sent).id.reverse()));
            assert_sound(&back);
        }
        assert_eq!(node.bench.switch.counters().connections_made, 1);
    }
}

#[test]
fn errors_speak_of_what_their_receiver_knows() {
    for v4 in [true, false] {
        let mut node = Node::new(61000..=61999);
        node.refilter(vec![one(v4, 17, hidden(&node, &[2], v4))]);
        let backend = node.add_pod(2, vec![]);
        let sent = ask(1, v4, 17, 1000);
        let (_, left, came) = node.bench.pass(node.pod, &sent);
        let (egress, back, _) = node.bench.pass(backend, &error(&left, pod(2, v4)));
        let (outer, about) = quoted(&back);
        assert_eq!((egress.port, outer.id.source, about), (node.pod, vip(v4), headers(&sent).id));
        let (_, answer, _) = node.bench.pass(backend, &answer_to(&came, b"answer"));
        let (egress, back, _) = node.bench.pass(node.pod, &error(&answer, pod(1, v4)));
        let (outer, about) = quoted(&back);
        assert_eq!((egress.port, outer.id.source, about), (backend, node_address(v4), came.id.reverse()));
    }
}

#[test]
fn pieces_have_the_same_source() {
    for v4 in [true, false] {
        let mut node = Node::new(61000..=61999);
        node.refilter(vec![one(v4, 17, hidden(&node, &[2], v4))]);
        let backend = node.add_pod(2, vec![]);
        let [first, later] = pieces(&ask_with(1, v4, Carries::Udp(1000, 80), &[7; 200]), 64, 5);
        let (_, first, came) = node.bench.pass(node.pod, &first);
        let (_, later, also) = node.bench.pass(node.pod, &later);
        assert_eq!((came.id.source, also.id.source), (node_address(v4), node_address(v4)));
        assert_checksums(&joined(&first, &later));
        let [first, later] = pieces(&answer_to(&came, &[9; 200]), 64, 6);
        let (_, first, _) = node.bench.pass(backend, &first);
        let (egress, later, _) = node.bench.pass(backend, &later);
        let back = joined(&first, &later);
        assert_checksums(&back);
        assert_eq!((egress.port, headers(&back).id.source, headers(&back).id.destination_port), (node.pod, vip(v4), 1000));
    }
}

#[test]
fn a_connection_keeps_its_source_when_others_change() {
    let mut node = Node::new(61000..=61999);
    let service = hidden(&node, &[2, 3], true);
    node.refilter(vec![one(true, 6, service)]);
    (2..=4).for_each(|last| _ = node.add_pod(last, vec![]));
    let before = node.bench.pass(node.pod, &ask(1, true, 6, 1000)).2.id;
    let kept = before.destination.0 as u8;
    node.refilter(vec![one(true, 6, hidden(&node, &[kept, 4], true))]);
    assert_eq!(node.bench.pass(node.pod, &ask(1, true, 6, 1000)).2.id, before);
    node.refilter(vec![one(true, 6, plain(&[kept, 4], true))]);
    assert_eq!(node.bench.pass(node.pod, &ask(1, true, 6, 1000)).2.id.source, pod(1, true), "it is not asked for any more");
    assert_eq!(node.leases(), 0);
}

#[test]
fn who_is_not_sent_keeps_no_port() {
    let mut node = Node::new(61000..=61999);
    node.refilter(vec![one(true, 6, hidden(&node, &[99], true))]);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::NoRoute);
    assert_eq!(node.leases(), 0);
}

#[test]
fn a_source_of_another_family_is_none() {
    let mut node = Node::new(61000..=61999);
    node.add_pod(2, vec![]);
    node.refilter(vec![one(true, 6, Service { masquerade: as_node(&node, false, true), ..plain(&[2], true) })]);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::UnsupportedProtocol);
}

#[test]
fn sctp_keeps_its_ports() {
    let mut node = Node::new(61000..=61999);
    let backends = vfp::Backends::new(vec![vfp::Backend { address: pod(2, true), port: 80 }]);
    let service = Service { backends, masquerade: as_node(&node, true, true), ..Service::default() };
    let rules = vec![redirect(true, 132, service)];
    assert_eq!(rules[0].conditions, at_vip(true, 132));
    node.refilter(vec![layer("service", true, rules, vec![])]);
    let backend = node.add_pod(2, vec![]);
    let sent = ask_with(1, true, Carries::Sctp(1000, 80), b"chunk");
    let came = node.bench.pass(node.pod, &sent).2;
    assert_eq!((came.id.source, came.id.source_port, came.id.destination), (node_address(true), 1000, pod(2, true)));
    let (egress, _, got) = node.bench.pass(backend, &answer_to(&came, b"chunk"));
    assert_eq!((egress.port, got.id), (node.pod, headers(&sent).id.reverse()));
}
