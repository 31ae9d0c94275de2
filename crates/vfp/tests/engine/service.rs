//! Services: which backend, and whether it stays.

use std::collections::BTreeSet;

use vfp::{Action, AddressMatch, Conditions, Distribution, DropReason, LayerSpec, PortId, Service, Tier};

use super::bench::{Carries, allow, assert_checksums, assert_sound, block, frame, layer, mac, tcp};
use super::errors::{error, quoted};
use super::fragments::joined;
use super::frames::pieces;
use super::outside::Node;
use super::translation::answer_to;
use super::vip::{PROTOCOLS, ask, ask_with, backend_of, headers, kinds, one, plain, pod, pods, redirect, vip};

/// A node with pods 2 to 5 besides the first, which has this layer.
fn with_pods(layers: Vec<LayerSpec>) -> (Node, Vec<PortId>) {
    let node = Node::new(61000..=61999);
    node.refilter(layers);
    let ports = (2..=5).map(|last| node.add_pod(last, vec![])).collect();
    (node, ports)
}

#[test]
fn a_connection_keeps_its_backend_while_others_come_and_go() {
    for (v4, protocol) in kinds() {
        let (mut node, _) = with_pods(vec![one(v4, protocol, plain(&[2, 3, 4], v4))]);
        let asks: Vec<Vec<u8>> = (1000..1060).map(|port| ask(1, v4, protocol, port)).collect();
        let ends = |node: &mut Node| -> Vec<u8> { asks.iter().map(|ask| backend_of(&mut node.bench, node.pod, ask)).collect() };
        let first = ends(&mut node);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3, "all are used");
        node.refilter(vec![one(v4, protocol, plain(&[2, 3, 4, 5], v4))]);
        assert_eq!(ends(&mut node), first, "one that comes takes nobody");
        node.refilter(vec![one(v4, protocol, plain(&[2, 4, 5], v4))]);
        let (second, stays) = (ends(&mut node), protocol == 6);
        for (before, after) in first.iter().zip(&second) {
            assert!(before == after || *before == 3, "{before} became {after}");
            assert_eq!(*after == 3, *before == 3 && stays, "the two of a TCP connection have shaken hands");
        }
        let moved = first.iter().filter(|backend| **backend == 3 && !stays).count();
        assert_eq!(node.bench.switch.counters().connections_revoked, moved as u64);
    }
}

#[test]
fn answers_come_from_the_service() {
    for (v4, protocol) in kinds() {
        let (mut node, ports) = with_pods(vec![one(v4, protocol, plain(&[2], v4))]);
        let sent = ask(1, v4, protocol, 1000);
        for tier in [Tier::New, Tier::Unified] {
            assert_eq!(node.bench.send(node.pod, &sent).tier, tier);
            let (egress, left, came) = node.bench.next();
            assert_eq!((egress.port, came.id.destination, came.id.destination_port), (ports[0], pod(2, v4), 8080));
            assert_sound(&left);
            let (egress, back, got) = node.bench.pass(ports[0], &answer_to(&came, b"answer"));
            assert_eq!((egress.port, got.id), (node.pod, headers(&sent).id.reverse()));
            assert_sound(&back);
        }
    }
}

#[test]
fn a_distribution_sends_together_what_it_does_not_tell_apart() {
    // Whether 50 connections of one client, of both protocols, end at one backend: of each protocol, and of both.
    for (distribution, per_protocol, both) in
        [(Distribution::FiveTuple, false, false), (Distribution::ThreeTuple, true, false), (Distribution::TwoTuple, true, true)]
    {
        let mut same_for_both = 0;
        for seed in 0..20 {
            let backends: Vec<u8> = (2..=5).collect();
            let service = Service { distribution, ..plain(&backends, true) };
            let rules = PROTOCOLS.map(|protocol| redirect(true, protocol, service.clone())).to_vec();
            let (mut node, _) = with_pods(vec![layer("service", true, rules, vec![])]);
            let address = super::bench::ip(&format!("10.0.7.{seed}"));
            let mut ends = PROTOCOLS.map(|_| BTreeSet::new());
            for (protocol, ends) in PROTOCOLS.into_iter().zip(&mut ends) {
                for port in 1000..1025 {
                    let bytes = frame((mac(1), mac(9)), address, vip(true), super::vip::carries(protocol, port), b"q");
                    ends.insert(backend_of(&mut node.bench, node.pod, &bytes));
                }
                assert_eq!(ends.len() == 1, per_protocol, "{distribution:?}");
            }
            same_for_both += usize::from(ends[0].len() == 1 && ends[0] == ends[1]);
        }
        assert_eq!(same_for_both == 20, both, "{distribution:?}");
    }
}

/// Layers of a backend that may send only as itself: hardware addresses always, others where something begins.
fn guard(last: u8) -> Vec<LayerSpec> {
    let own = [true, false].map(|v4| AddressMatch::host(pod(last, v4))).to_vec();
    let spoofed = |conditions: Conditions| {
        let other = super::bench::rule("spoofed", 9, Conditions::any(), Action::Block(DropReason::SpoofedSource));
        vec![allow("own", 1, conditions), other]
    };
    vec![
        layer("guard", false, spoofed(Conditions { source_macs: vec![mac(last)], ..Conditions::any() }), vec![]),
        layer("guard", true, spoofed(Conditions { sources: own, ..Conditions::any() }), vec![]),
    ]
}

#[test]
fn a_kept_destination_reaches_the_backend_and_answers_from_there() {
    for (v4, protocol) in kinds() {
        let mut node = Node::new(61000..=61999);
        let service = Service { keep_destination: true, ..plain(&[2], v4) };
        node.refilter(vec![one(v4, protocol, service)]);
        let backend = node.add_pod(2, guard(2));
        let sent = ask(1, v4, protocol, 1000);
        for tier in [Tier::New, Tier::Unified] {
            assert_eq!(node.bench.send(node.pod, &sent).tier, tier);
            let (egress, left, came) = node.bench.next();
            assert_eq!((egress.port, came.id, came.destination_mac), (backend, headers(&sent).id, mac(2)));
            assert_sound(&left);
            let (egress, back, got) = node.bench.pass(backend, &answer_to(&came, b"answer"));
            assert_eq!((egress.port, got.id, got.destination_mac), (node.pod, came.id.reverse(), mac(1)));
            assert_sound(&back);
        }
        let id = headers(&sent).id.reverse();
        let other = if protocol == 6 { Carries::Tcp(80, 1001, 16) } else { Carries::Udp(80, 1001) };
        let unasked = frame((mac(2), mac(9)), id.source, id.destination, other, b"x");
        assert_eq!(node.bench.fail(backend, &unasked), DropReason::SpoofedSource, "only within the connection");
        let as_other = frame((mac(3), mac(9)), id.source, id.destination, super::vip::carries(protocol, 80), b"x");
        assert_eq!(node.bench.fail(backend, &as_other), DropReason::SpoofedSource, "hardware addresses are always held to");
    }
}

#[test]
fn a_guard_sees_answers_as_they_were_sent() {
    for (v4, protocol) in kinds() {
        let mut node = Node::new(61000..=61999);
        node.refilter(vec![one(v4, protocol, plain(&[2], v4))]);
        let own = Conditions { sources: vec![AddressMatch::host(pod(2, v4))], ..Conditions::any() };
        let backend = node.add_pod(2, vec![layer("guard", false, vec![allow("own", 1, own), block("else", 2, Conditions::any())], vec![])]);
        let came = node.bench.pass(node.pod, &ask(1, v4, protocol, 1000)).2;
        let (_, _, got) = node.bench.pass(backend, &answer_to(&came, b"answer"));
        assert_eq!(got.id.source, vip(v4), "it is translated after the layers of its own port");
    }
}

#[test]
fn errors_about_a_kept_destination_find_their_way() {
    for v4 in [true, false] {
        let mut node = Node::new(61000..=61999);
        node.refilter(vec![one(v4, 17, Service { keep_destination: true, ..plain(&[2], v4) })]);
        let backend = node.add_pod(2, vec![]);
        let sent = ask(1, v4, 17, 1000);
        let (_, left, came) = node.bench.pass(node.pod, &sent);
        let (egress, back, _) = node.bench.pass(backend, &error(&left, vip(v4)));
        let (outer, about) = quoted(&back);
        assert_eq!((egress.port, outer.id.source, about), (node.pod, vip(v4), came.id));
        // And one of the client, about an answer.
        let (_, answer, _) = node.bench.pass(backend, &answer_to(&came, b"answer"));
        let (egress, back, _) = node.bench.pass(node.pod, &error(&answer, pod(1, v4)));
        let (outer, about) = quoted(&back);
        assert_eq!((egress.port, outer.id.destination, about), (backend, vip(v4), came.id.reverse()));
    }
}

#[test]
fn pieces_go_to_one_backend() {
    for (v4, keep_destination) in [(true, false), (false, false), (true, true), (false, true)] {
        let (mut node, _) = with_pods(vec![one(v4, 17, Service { keep_destination, ..plain(&[2, 3, 4, 5], v4) })]);
        for port in 1000..1010 {
            let whole = ask_with(1, v4, Carries::Udp(port, 80), &[7; 200]);
            let [first, later] = pieces(&whole, 64, port);
            let (to, first, _) = node.bench.pass(node.pod, &first);
            let (also, later, _) = node.bench.pass(node.pod, &later);
            assert_eq!(to, also);
            let whole = joined(&first, &later);
            assert_checksums(&whole);
            assert_eq!(headers(&whole).id.destination_port, if keep_destination { 80 } else { 8080 });
        }
    }
}

#[test]
fn a_packet_is_redirected_once() {
    let keep = Service { keep_destination: true, ..plain(&[2], true) };
    let (mut node, _) = with_pods(vec![one(true, 6, keep.clone()), one(true, 6, keep)]);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::RuleLoop);
}

#[test]
fn a_backend_of_another_family_is_no_backend_for_it() {
    for keep_destination in [false, true] {
        let service = Service { backends: pods(&[2], false), keep_destination, ..Service::default() };
        let (mut node, _) = with_pods(vec![one(true, 6, service)]);
        assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::UnsupportedProtocol);
    }
}

#[test]
fn a_connection_outlives_the_listing_of_its_backend_and_not_the_backend() {
    let (mut node, ports) = with_pods(vec![one(true, 6, plain(&[2], true))]);
    let data = ask(1, true, 6, 1000);
    assert_eq!(backend_of(&mut node.bench, node.pod, &data), 2);
    node.refilter(vec![one(true, 6, plain(&[3], true))]);
    assert_eq!(backend_of(&mut node.bench, node.pod, &data), 2, "a pod that is leaving finishes its work");
    assert_eq!(backend_of(&mut node.bench, node.pod, &ask(1, true, 6, 1001)), 3, "and gets no more of it");
    node.refilter(vec![one(true, 6, plain(&[], true))]);
    assert_eq!(backend_of(&mut node.bench, node.pod, &data), 2);
    node.refilter(vec![one(true, 6, plain(&[3], true))]);
    node.bench.switch.remove_port(ports[0]).expect("the port");
    assert_eq!(backend_of(&mut node.bench, node.pod, &data), 3, "which resets it, as it knows nothing of it");
    assert_eq!(node.bench.switch.connection_usage().0, 2);
}

#[test]
fn who_has_not_been_answered_is_sent_to_another_backend() {
    let (mut node, _) = with_pods(vec![one(true, 6, plain(&[2], true))]);
    let opening = tcp((1, 9), ("10.0.0.1", 1000), ("10.96.0.1", 80), 2);
    assert_eq!(backend_of(&mut node.bench, node.pod, &opening), 2);
    node.refilter(vec![one(true, 6, plain(&[3], true))]);
    assert_eq!(backend_of(&mut node.bench, node.pod, &opening), 3);
}

#[test]
fn a_large_service_spreads() {
    let backends: Vec<u8> = (2..=250).collect();
    let node = Node::new(61000..=61999);
    node.refilter(vec![one(true, 6, plain(&backends, true))]);
    let mut node = node;
    for last in 2..=250 {
        node.bench.deliver(node.domain, &format!("10.0.0.{last}"), node.uplink, last);
    }
    let ends: BTreeSet<u8> = (1..500).map(|port| backend_of(&mut node.bench, node.pod, &ask(1, true, 6, port))).collect();
    assert!(ends.len() > 150, "{}", ends.len());
}
