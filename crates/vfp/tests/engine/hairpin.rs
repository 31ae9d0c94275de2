//! A client that is sent to itself.

use vfp::{DropReason, PortId, Service, Tier};

use super::bench::{assert_sound, mac};
use super::errors::{error, quoted};
use super::outside::Node;
use super::translation::answer_to;
use super::vip::{as_node, ask, headers, kinds, node_address, one, plain, pod, vip};

/// A node whose first pod asks a service of which it is the only backend.
fn alone(v4: bool, protocol: u8, always: bool, keep_destination: bool) -> Node {
    let node = Node::new(61000..=61999);
    let service = Service { masquerade: as_node(&node, v4, always), keep_destination, ..plain(&[1], v4) };
    node.refilter(vec![one(v4, protocol, service)]);
    node
}

#[test]
fn a_client_reaches_itself_as_if_it_were_another() {
    for (v4, protocol) in kinds() {
        for (always, keep_destination) in [(false, false), (true, false), (false, true)] {
            let mut node = alone(v4, protocol, always, keep_destination);
            let sent = ask(1, v4, protocol, 1000);
            for tier in [Tier::New, Tier::Unified] {
                assert_eq!(node.bench.send(node.pod, &sent).tier, tier);
                let (egress, left, came) = node.bench.next();
                assert_eq!((egress.port, came.id.source), (node.pod, node_address(v4)));
                assert_eq!((came.source_mac, came.destination_mac), (mac(9), mac(1)), "the NIC takes it");
                let to = if keep_destination { (vip(v4), 80) } else { (pod(1, v4), 8080) };
                assert_eq!((came.id.destination, came.id.destination_port), to);
                assert_sound(&left);
                let (egress, back, got) = node.bench.pass(node.pod, &answer_to(&came, b"answer"));
                assert_eq!((egress.port, got.id), (node.pod, headers(&sent).id.reverse()));
                assert_eq!((got.source_mac, got.destination_mac), (mac(9), mac(1)));
                assert_sound(&back);
            }
            assert_eq!((node.bench.switch.counters().connections_made, node.leases()), (1, 1));
        }
    }
}

#[test]
fn who_is_sent_to_another_keeps_its_source() {
    for (v4, protocol) in kinds() {
        let mut node = Node::new(61000..=61999);
        let service = Service { masquerade: as_node(&node, v4, false), ..plain(&[2], v4) };
        node.refilter(vec![one(v4, protocol, service)]);
        let backend = node.add_pod(2, vec![]);
        let (egress, _, came) = node.bench.pass(node.pod, &ask(1, v4, protocol, 1000));
        assert_eq!((egress.port, came.id.source, node.leases()), (backend, pod(1, v4), 0));
    }
}

#[test]
fn without_another_source_nobody_reaches_itself() {
    for (v4, protocol) in kinds() {
        for keep_destination in [false, true] {
            let mut node = Node::new(61000..=61999);
            node.refilter(vec![one(v4, protocol, Service { keep_destination, ..plain(&[1], v4) })]);
            assert_eq!(node.bench.fail(node.pod, &ask(1, v4, protocol, 1000)), DropReason::SamePort);
        }
    }
}

#[test]
fn errors_come_back_too() {
    for v4 in [true, false] {
        let mut node = alone(v4, 17, false, false);
        let sent = ask(1, v4, 17, 1000);
        let (_, left, came) = node.bench.pass(node.pod, &sent);
        let (egress, back, _) = node.bench.pass(node.pod, &error(&left, pod(1, v4)));
        let (outer, about) = quoted(&back);
        assert_eq!((egress.port, outer.id.source, about), (node.pod, vip(v4), headers(&sent).id));
        let (_, answer, _) = node.bench.pass(node.pod, &answer_to(&came, b"answer"));
        let (egress, back, _) = node.bench.pass(node.pod, &error(&answer, pod(1, v4)));
        let (outer, about) = quoted(&back);
        assert_eq!((egress.port, outer.id.source, about), (node.pod, node_address(v4), came.id.reverse()));
    }
}

#[test]
fn when_the_source_is_no_longer_given_it_is_over() {
    let mut node = alone(true, 6, false, false);
    let came = node.bench.pass(node.pod, &ask(1, true, 6, 1000)).2;
    node.refilter(vec![one(true, 6, plain(&[1], true))]);
    assert_eq!(node.bench.fail(node.pod, &answer_to(&came, b"late")), DropReason::NoRoute);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::SamePort);
    assert_eq!((node.leases(), node.pod), (0, PortId(1)));
}
