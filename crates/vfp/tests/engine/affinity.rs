//! Clients that keep their backend.

use std::collections::BTreeSet;
use std::time::Duration;

use vfp::{PortId, Service};

use super::outside::Node;
use super::vip::{PROTOCOLS, ask, backend_of, kinds, one, plain, redirect};

const MINUTE: u64 = 60;

fn loyal(list: &[u8], v4: bool) -> Service {
    Service { affinity: Some(Duration::from_secs(MINUTE)), ..plain(list, v4) }
}

/// A node with pods 2 to 5; the first has a loyal service of either protocol.
fn node(list: &[u8], v4: bool) -> Node {
    let node = Node::new(61000..=61999);
    (2..=5).for_each(|last| _ = node.add_pod(last, vec![]));
    change(&node, list, v4);
    node
}

fn change(node: &Node, list: &[u8], v4: bool) {
    let rules = PROTOCOLS.map(|protocol| redirect(v4, protocol, loyal(list, v4))).to_vec();
    node.refilter(vec![super::bench::layer("service", true, rules, vec![])]);
}

/// Where new connections of the first pod end.
fn ends(node: &mut Node, v4: bool, protocol: u8, ports: std::ops::Range<u16>) -> BTreeSet<u8> {
    ports.map(|port| backend_of(&mut node.bench, node.pod, &ask(1, v4, protocol, port))).collect()
}

#[test]
fn a_client_keeps_its_backend_from_one_connection_to_the_next() {
    for (v4, protocol) in kinds() {
        let mut node = node(&[2, 3, 4, 5], v4);
        assert_eq!(ends(&mut node, v4, protocol, 1000..1050).len(), 1);
        assert_eq!(node.bench.switch.affinity_usage().0, 1);
    }
}

#[test]
fn it_is_forgotten_when_it_was_not_used_for_so_long() {
    let mut node = node(&[2, 3, 4, 5], true);
    let mut seen = BTreeSet::new();
    for port in 1000..1030 {
        seen.extend(ends(&mut node, true, 6, port..port + 1));
        node.bench.wait(MINUTE);
    }
    assert!(seen.len() > 1, "each was chosen anew");
    node.bench.sweep();
    assert_eq!(node.bench.switch.affinity_usage().0, 0);
}

#[test]
fn every_new_connection_renews_it_and_old_ones_do_not() {
    let mut node = node(&[2, 3, 4, 5], true);
    let first = ends(&mut node, true, 6, 1000..1001);
    for port in 1001..1040 {
        node.bench.wait(MINUTE - 1);
        node.bench.sweep();
        assert_eq!(ends(&mut node, true, 6, port..port + 1), first);
    }
    node.bench.wait(MINUTE / 2);
    backend_of(&mut node.bench, node.pod, &ask(1, true, 6, 1039));
    node.bench.wait(MINUTE / 2);
    node.bench.sweep();
    assert_eq!(node.bench.switch.affinity_usage().0, 0, "a packet of an old connection is no new one");
}

#[test]
fn when_its_backend_goes_the_client_gets_another_and_keeps_that() {
    for v4 in [true, false] {
        let mut node = node(&[2, 3, 4, 5], v4);
        let first: Vec<u8> = ends(&mut node, v4, 6, 1000..1001).into_iter().collect();
        let rest: Vec<u8> = (2..=5).filter(|last| *last != first[0]).collect();
        change(&node, &rest, v4);
        let second = ends(&mut node, v4, 6, 1001..1050);
        assert_eq!(second.len(), 1);
        change(&node, &[2, 3, 4, 5], v4);
        assert_eq!(ends(&mut node, v4, 6, 1050..1080), second, "it does not go back");
    }
}

#[test]
fn services_and_clients_are_told_apart() {
    // Over several backends, not all clients, nor both protocols, can have the same by chance.
    let mut node = node(&[2, 3, 4, 5], true);
    let clients: BTreeSet<Vec<u8>> = (10..40)
        .map(|last| PROTOCOLS.map(|protocol| backend_of(&mut node.bench, node.pod, &ask(last, true, protocol, 1000))).to_vec())
        .collect();
    assert!(clients.len() > 4);
    assert!(clients.iter().any(|pair| pair[0] != pair[1]));
    assert_eq!(node.bench.switch.affinity_usage().0, 60);
}

#[test]
fn a_port_that_goes_is_forgotten() {
    let mut node = node(&[2, 3], true);
    let second = node.add_pod(6, vec![one(true, 6, loyal(&[2, 3], true))]);
    backend_of(&mut node.bench, second, &ask(6, true, 6, 1));
    backend_of(&mut node.bench, node.pod, &ask(1, true, 6, 1));
    node.bench.switch.remove_port(second).expect("the port");
    assert_eq!(node.bench.switch.affinity_usage().0, 1);
    assert_ne!(second, PortId(0));
}

#[test]
fn one_ports_flood_pushes_out_nobody_elses() {
    let mut node = node(&[2, 3, 4, 5], true);
    let second = node.add_pod(6, vec![one(true, 6, loyal(&[2, 3, 4, 5], true))]);
    let kept = backend_of(&mut node.bench, second, &ask(6, true, 6, 1));
    for number in 0..3000u16 {
        let [high, low] = number.to_be_bytes();
        let from = super::bench::ip(&format!("10.7.{high}.{low}"));
        let bytes =
            super::bench::frame((super::bench::mac(1), super::bench::mac(9)), from, super::vip::vip(true), super::vip::carries(6, 1), b"");
        node.bench.send(node.pod, &bytes);
        node.bench.out.sent.clear();
    }
    let (used, capacity) = node.bench.switch.affinity_usage();
    assert!(used <= capacity / 2 + 1, "{used} of {capacity}");
    for port in 2..30 {
        assert_eq!(backend_of(&mut node.bench, second, &ask(6, true, 6, port)), kept);
    }
}
