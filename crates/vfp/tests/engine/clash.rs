//! Connections of one client whose answers would look the same: two services, or a service and its backend itself.

use vfp::{Action, Conditions, DropReason, LayerSpec, PortId, Tier};
use wire::{FlowId, Headers};

use super::bench::{Carries, allow, assert_sound, block, frame, layer, mac, rule};
use super::errors::{error, quoted};
use super::fragments::joined;
use super::frames::pieces;
use super::outside::Node;
use super::translation::answer_to;
use super::vip::{ask, ask_with, headers, kinds, plain, pod, vip};

/// Two services of one address, at ports 80 and 81, with the same pods behind them.
fn two_services(v4: bool, protocol: u8, list: &[u8]) -> LayerSpec {
    let service = |port: u16| {
        let conditions = Conditions { protocols: vec![protocol], destination_ports: vec![port..=port], ..Conditions::to(vip(v4)) };
        rule(&port.to_string(), 1, conditions, Action::Redirect(std::sync::Arc::new(plain(list, v4))))
    };
    layer("service", true, vec![service(80), service(81)], vec![])
}

/// A packet of the pod to one of the services, or to the backend itself.
fn to(protocol: u8, v4: bool, port: u16, service: Option<u16>) -> Vec<u8> {
    let (address, number) = service.map_or((pod(2, v4), 8080), |number| (vip(v4), number));
    let carries = if protocol == 6 { Carries::Tcp(port, number, 16) } else { Carries::Udp(port, number) };
    frame((mac(1), mac(9)), pod(1, v4), address, carries, b"question")
}

fn node(v4: bool, protocol: u8) -> (Node, PortId) {
    let node = Node::new(61000..=61999);
    node.refilter(vec![two_services(v4, protocol, &[2])]);
    let backend = node.add_pod(2, vec![]);
    (node, backend)
}

/// Sends a packet that must reach the backend and be answered as whom it was sent to, and answers what the backend saw.
fn is_answered(node: &mut Node, backend: PortId, sent: &[u8]) -> FlowId {
    let (egress, left, came) = node.bench.pass(node.pod, sent);
    assert_eq!(egress.port, backend);
    assert_sound(&left);
    let (egress, back, got) = node.bench.pass(backend, &answer_to(&came, b"answer"));
    assert_eq!((egress.port, got.id), (node.pod, headers(sent).id.reverse()));
    assert_sound(&back);
    came.id
}

#[test]
fn both_work_in_whatever_order_they_come() {
    for (v4, protocol) in kinds() {
        let ways = [Some(80), Some(81), None];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let (mut node, backend) = node(v4, protocol);
            let mut seen: Vec<FlowId> = Vec::new();
            for way in order {
                seen.push(is_answered(&mut node, backend, &to(protocol, v4, 1000, ways[way])));
            }
            assert!(seen.iter().all(|id| id.source == pod(1, v4) && id.destination == pod(2, v4) && id.destination_port == 8080));
            assert_eq!(seen[0].source_port, 1000, "the first keeps its own");
            assert!(seen[1..].iter().all(|id| (61_000..=65_535).contains(&id.source_port)), "{seen:?}");
            assert_ne!(seen[1].source_port, seen[2].source_port);
            // They stay as they are, and are known.
            for (way, id) in order.iter().zip(&seen) {
                assert_eq!(is_answered(&mut node, backend, &to(protocol, v4, 1000, ways[*way])), *id);
                assert_eq!(node.bench.send(node.pod, &to(protocol, v4, 1000, ways[*way])).tier, Tier::Unified);
                node.bench.next();
            }
            let counters = node.bench.switch.counters();
            assert_eq!((counters.connections_made, counters.connections_renamed, counters.connections_revoked), (3, 2, 0));
        }
    }
}

#[test]
fn a_change_of_policy_leaves_it_the_port_it_has() {
    let (mut node, backend) = node(true, 6);
    let names: Vec<FlowId> = [Some(80), Some(81)].map(|way| is_answered(&mut node, backend, &to(6, true, 1000, way))).to_vec();
    let nothing = layer("acl", true, vec![allow("all", 1, Conditions::any())], vec![]);
    node.refilter(vec![nothing, two_services(true, 6, &[2])]);
    let again: Vec<FlowId> = [Some(80), Some(81)].map(|way| is_answered(&mut node, backend, &to(6, true, 1000, way))).to_vec();
    assert_eq!(names, again);
    assert_eq!(node.bench.switch.counters().connections_revoked, 0);
}

#[test]
fn the_port_is_free_again_when_the_connection_is_over() {
    let (mut node, backend) = node(true, 17);
    let pool = vfp::PoolId(0);
    for way in [Some(80), Some(81), None] {
        is_answered(&mut node, backend, &to(17, true, 1000, way));
    }
    assert_eq!(node.bench.switch.pool_usage(pool), Some(2));
    node.bench.wait(100_000);
    node.bench.sweep();
    assert_eq!((node.bench.switch.pool_usage(pool), node.leases()), (Some(0), 0));
}

#[test]
fn a_backend_that_goes_takes_the_port_with_it() {
    let (mut node, backend) = node(true, 17);
    for way in [Some(80), Some(81)] {
        is_answered(&mut node, backend, &to(17, true, 1000, way));
    }
    let third = node.add_pod(3, vec![]);
    node.refilter(vec![two_services(true, 17, &[3])]);
    let seen: Vec<FlowId> = [Some(81), Some(80)]
        .map(|way| {
            let (egress, _, came) = node.bench.pass(node.pod, &to(17, true, 1000, way));
            assert_eq!(egress.port, third);
            came.id
        })
        .to_vec();
    assert_eq!(seen[0].source_port, 1000, "nobody has that name there yet");
    assert_ne!(seen[1].source_port, 1000);
    assert_eq!(node.bench.switch.pool_usage(vfp::PoolId(0)), Some(1));
}

#[test]
fn errors_about_it_speak_of_what_the_client_sent() {
    let (mut node, backend) = node(true, 17);
    is_answered(&mut node, backend, &to(17, true, 1000, Some(80)));
    let sent = to(17, true, 1000, Some(81));
    let (_, left, _) = node.bench.pass(node.pod, &sent);
    let (egress, told, _) = node.bench.pass(backend, &error(&left, pod(2, true)));
    assert_eq!(egress.port, node.pod);
    assert_eq!(quoted(&told).1, headers(&sent).id);
}

#[test]
fn pieces_go_together() {
    let (mut node, backend) = node(true, 17);
    is_answered(&mut node, backend, &to(17, true, 1000, Some(80)));
    let large = ask_with(1, true, Carries::Udp(1000, 81), &[7; 200]);
    let [first, later] = pieces(&large, 64, 5);
    let (_, first, came) = node.bench.pass(node.pod, &first);
    let (egress, later, _) = node.bench.pass(node.pod, &later);
    assert_eq!((egress.port, came.id.destination_port), (backend, 8080));
    assert_ne!(came.id.source_port, 1000);
    super::bench::assert_checksums(&joined(&first, &later));
}

#[test]
fn the_backends_own_connections_to_the_client_count_too() {
    let (mut node, backend) = node(true, 6);
    // The backend opens one from 8080 to the client's 1000, and the client asks the service from there.
    let own = frame((mac(2), mac(1)), pod(2, true), pod(1, true), Carries::Tcp(8080, 1000, 2), b"");
    node.bench.pass(backend, &own);
    let seen = is_answered(&mut node, backend, &to(6, true, 1000, Some(80)));
    assert_ne!(seen.source_port, 1000);
    let (egress, _, came) = node.bench.pass(backend, &own);
    assert_eq!((egress.port, came.id), (node.pod, headers(&own).id), "the other is as it was");
}

#[test]
fn what_has_no_ports_that_can_change_is_dropped() {
    let mut node = Node::new(61000..=61999);
    let sctp = |port: u16| {
        let conditions = Conditions { protocols: vec![132], destination_ports: vec![port..=port], ..Conditions::to(vip(true)) };
        let backends = vfp::Backends::new(vec![vfp::Backend { address: pod(2, true), port: 80 }]);
        rule(&port.to_string(), 1, conditions, Action::Redirect(std::sync::Arc::new(vfp::Service { backends, ..Default::default() })))
    };
    node.refilter(vec![layer("service", true, vec![sctp(80)], vec![])]);
    let backend = node.add_pod(2, vec![]);
    let to_service = ask_with(1, true, Carries::Sctp(1000, 80), b"chunk");
    let direct = frame((mac(1), mac(9)), pod(1, true), pod(2, true), Carries::Sctp(1000, 80), b"chunk");
    is_answered(&mut node, backend, &to_service);
    assert_eq!(node.bench.fail(node.pod, &direct), DropReason::NoNatPorts);
    is_answered(&mut node, backend, &to_service);
}

#[test]
fn lists_judge_it_by_the_port_that_the_client_chose() {
    let mut node = Node::new(61000..=61999);
    node.refilter(vec![two_services(true, 6, &[2])]);
    let chosen = Conditions { source_ports: vec![1000..=1000], ..Conditions::default() };
    let list = layer("acl", true, vec![], vec![allow("chosen", 1, chosen), block("rest", 9, Conditions::any())]);
    let backend = node.add_pod(2, vec![list]);
    for way in [Some(80), Some(81), None] {
        is_answered(&mut node, backend, &to(6, true, 1000, way));
    }
    assert_eq!(node.bench.fail(node.pod, &to(6, true, 1001, Some(80))), DropReason::AclBlock);
}

#[test]
fn a_connection_that_is_over_has_no_name_to_clash_with() {
    let (mut node, backend) = node(true, 6);
    let with = |flags: u8| ask_with(1, true, Carries::Tcp(1000, 80, flags), b"");
    node.bench.pass(node.pod, &with(2));
    let came: Headers = node.bench.pass(node.pod, &with(4)).2;
    assert_eq!(came.id.source_port, 1000);
    node.bench.wait(11);
    node.bench.sweep();
    assert_eq!(is_answered(&mut node, backend, &to(6, true, 1000, Some(81))).source_port, 1000);
    assert_ne!(is_answered(&mut node, backend, &ask(1, true, 6, 1000)).source_port, 1000);
}
