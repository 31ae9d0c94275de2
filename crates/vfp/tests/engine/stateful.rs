//! What stateful layers remember, and when policy makes them forget.

use vfp::{Action, AddressMatch, Conditions, DropReason, NextHop, Outcome, PortKind, ProgramSpec, Stage, Tier, UnderlaySpec};

use super::bench::{Bench, allow, block, ip, layer, mac, port_spec, prefix, rule, tcp, udp};
use super::outside::{Node, service};

const SYN: u8 = 2;
const ACK: u8 = 16;

fn there(flags: u8) -> Vec<u8> {
    tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), flags)
}

fn back(flags: u8) -> Vec<u8> {
    tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), flags)
}

fn closed(stateful: bool) -> Vec<vfp::LayerSpec> {
    vec![layer("acl", stateful, vec![], vec![block("nobody", 1, Conditions::any())])]
}

#[test]
fn answers_pass_a_stateful_layer_and_no_other() {
    for (stateful, passes) in [(true, true), (false, false)] {
        let (mut bench, a, b) = Bench::pair(closed(stateful));
        bench.pass(a, &there(SYN));
        assert_eq!(matches!(bench.send(b, &back(SYN | ACK)).outcome, Outcome::Forwarded(_)), passes);
    }
}

#[test]
fn an_answer_to_another_port_is_no_answer() {
    let (mut bench, a, b) = Bench::pair(closed(true));
    bench.pass(a, &there(SYN));
    assert_eq!(bench.fail(b, &tcp((2, 1), ("10.0.0.2", 81), ("10.0.0.1", 1000), SYN | ACK)), DropReason::AclBlock);
}

#[test]
fn answers_to_who_never_asked_are_filtered() {
    let (mut bench, a, b) = Bench::pair(closed(true));
    let c = bench.nic("c", bench.first_domain(), 3, "10.0.0.3");
    bench.pass(c, &there(SYN));
    assert_eq!(bench.fail(b, &back(SYN | ACK)), DropReason::AclBlock, "it was asked in the name of {a}");
}

#[test]
fn a_program_that_forbids_ends_the_connection_at_its_next_packet() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    for _ in 0..2 {
        bench.pass(a, &there(ACK));
        bench.pass(b, &back(ACK));
    }
    bench.refilter(a, vec![layer("acl", true, vec![block("no", 1, Conditions::any())], vec![block("no", 1, Conditions::any())])]);
    assert!(bench.switch.flows().iter().all(|flow| !flow.unified), "both directions are out of date");
    assert_eq!(bench.fail(b, &back(ACK)), DropReason::AclBlock, "it is no answer any more");
    assert_eq!(bench.fail(a, &there(ACK)), DropReason::AclBlock);
    let counters = bench.switch.counters();
    assert_eq!((counters.connections_revoked, counters.resimulated), (1, 1));
    assert!(bench.switch.flows().is_empty());
}

#[test]
fn a_program_that_still_allows_keeps_the_connection() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    bench.pass(a, &there(ACK));
    bench.pass(b, &back(ACK));
    bench.refilter(a, vec![layer("acl", true, vec![allow("web", 1, Conditions::any())], vec![block("nobody", 1, Conditions::any())])]);
    for tier in [Tier::Connection, Tier::Unified] {
        assert_eq!(bench.send(b, &back(ACK)).tier, tier);
        assert_eq!(bench.send(a, &there(ACK)).tier, tier);
    }
    let counters = bench.switch.counters();
    assert_eq!((counters.connections_made, counters.connections_revoked, counters.resimulated), (1, 0, 1));
}

#[test]
fn packets_count_for_the_rules_they_met() {
    let named = |name: &str| vec![layer("acl", true, vec![allow(name, 1, Conditions::any())], vec![])];
    let (mut bench, a, b) = Bench::pair(named("old"));
    for _ in 0..3 {
        bench.pass(a, &there(ACK));
    }
    let old = bench.switch.rules().iter().find(|rule| rule.place.rule == "old").map(|rule| rule.packets);
    assert_eq!(old, Some(3));
    bench.pass(a, &there(ACK));
    bench.refilter(a, named("new"));
    bench.pass(b, &back(ACK));
    bench.pass(a, &there(ACK));
    let new = bench.switch.rules().iter().find(|rule| rule.place.rule == "new").map(|rule| rule.packets);
    assert_eq!(new, Some(1), "the packet before the change was the old rule's");
}

#[test]
fn a_domain_rule_moves_a_connection() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let c = bench.nic("c", bench.first_domain(), 3, "10.0.0.3");
    assert_eq!(bench.pass(a, &there(ACK)).0.port, b);
    bench.deliver(bench.first_domain(), "10.0.0.2", c, 3);
    assert_eq!(bench.pass(a, &there(ACK)).0.port, c);
    assert_eq!(bench.switch.counters().connections_revoked, 1);
    bench.switch.remove_rules(bench.first_domain(), [(Stage::ForwardOut, "to 10.0.0.2")]).expect("the domain");
    assert_eq!(bench.fail(a, &there(ACK)), DropReason::NoRoute);
}

#[test]
fn a_rule_that_is_there_already_moves_nothing() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    bench.pass(a, &there(ACK));
    bench.deliver(bench.first_domain(), "10.0.0.2", b, 2);
    assert_eq!(bench.send(a, &there(ACK)).tier, Tier::Unified);
}

#[test]
fn unrelated_changes_keep_port_and_backend() {
    let mut node = Node::new(61000..=61999);
    let layers = |node: &Node, more: usize| {
        let spare = (0..more).map(|n| layer(&format!("spare{n}"), true, vec![allow("all", 1, Conditions::any())], vec![]));
        spare.chain([service(&["10.0.0.2", "10.0.0.3", "10.0.0.4"]), node.nat(None)]).collect::<Vec<_>>()
    };
    node.refilter(layers(&node, 0));
    let out = udp((1, 9), ("10.0.0.1", 5353), ("8.8.8.8", 53), b"question");
    let web = tcp((1, 9), ("10.0.0.1", 1000), ("10.96.0.1", 80), ACK);
    let before = [&out, &web].map(|bytes| node.bench.pass(node.pod, bytes).2.id);
    for more in 1..4 {
        node.refilter(layers(&node, more));
        let after = [&out, &web].map(|bytes| node.bench.pass(node.pod, bytes).2.id);
        assert_eq!(before, after);
    }
    assert_eq!((node.leases(), node.bench.switch.counters().connections_revoked), (2, 0));
}

#[test]
fn a_connection_leaves_a_backend_that_is_gone() {
    let mut node = Node::new(61000..=61999);
    let backends = ["10.0.0.2", "10.0.0.3"];
    node.refilter(vec![service(&backends)]);
    node.add_pod(2, vec![]);
    node.add_pod(3, vec![]);
    let web = tcp((1, 9), ("10.0.0.1", 1000), ("10.96.0.1", 80), SYN);
    let first = node.bench.pass(node.pod, &web).2.id.destination;
    node.refilter(vec![service(backends.iter().filter(|backend| ip(backend) != first).copied().collect::<Vec<_>>().as_slice())]);
    assert_ne!(node.bench.pass(node.pod, &web).2.id.destination, first);
    node.refilter(vec![service(&[])]);
    assert_eq!(node.bench.fail(node.pod, &web), DropReason::NoBackend);
}

#[test]
fn an_underlay_that_changes_is_noticed() {
    let mut node = Node::new(61000..=61999);
    let out = udp((1, 9), ("10.0.0.1", 5353), ("8.8.8.8", 53), b"question");
    assert_eq!(node.bench.pass(node.pod, &out).2.destination_mac, mac(254));
    node.bench.switch.set_neighbour(node.underlay, ip("192.168.0.254"), Some(mac(253))).expect("the underlay");
    assert_eq!(node.bench.pass(node.pod, &out).2.destination_mac, mac(253));
    let routes = vec![(prefix("0.0.0.0/0"), NextHop::Gateway(ip("192.168.0.9")))];
    let spec = UnderlaySpec { uplink: node.uplink, mac: mac(100), routes };
    node.bench.switch.change_underlay(node.underlay, spec).expect("the underlay");
    assert_eq!(node.bench.fail(node.pod, &out), DropReason::NoNeighbour);
    assert_eq!(node.bench.out.wanted, [(node.underlay, ip("192.168.0.9"))]);
    node.bench.switch.set_neighbour(node.underlay, ip("192.168.0.9"), Some(mac(9))).expect("the underlay");
    assert_eq!(node.bench.pass(node.pod, &out).2.destination_mac, mac(9));
    node.bench.switch.remove_underlay(node.underlay).expect("the underlay");
    assert_eq!(node.bench.fail(node.pod, &out), DropReason::NoRoute);
    assert_eq!(node.leases(), 0, "whoever was refused keeps nothing");
}

#[test]
fn a_connection_that_policy_has_moved_makes_room_for_who_took_its_place() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let c = bench.nic("c", bench.first_domain(), 3, "10.0.0.3");
    bench.deliver(bench.first_domain(), "10.0.0.1", c, 3);
    bench.pass(b, &back(ACK));
    bench.deliver(bench.first_domain(), "10.0.0.1", a, 1);
    assert_eq!(bench.pass(a, &there(ACK)).0.port, b);
}

#[test]
fn who_opens_again_gets_a_new_connection() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    bench.pass(a, &there(SYN));
    bench.pass(b, &back(4));
    assert_eq!(bench.send(a, &there(SYN)).tier, Tier::New, "the one before was refused");
    bench.pass(b, &back(SYN | ACK));
    bench.pass(a, &there(ACK));
    assert!(bench.switch.flows().iter().all(|flow| flow.tcp == Some(vfp::TcpState::Open)));
}

#[test]
fn who_was_asked_and_asks_back_later_is_judged_anew() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    bench.pass(a, &there(SYN));
    bench.pass(b, &back(4));
    assert_eq!(bench.send(b, &back(SYN)).tier, Tier::New, "what was refused is over, and this is no answer to it");
    bench.pass(a, &there(SYN | ACK));
    bench.pass(b, &back(ACK));
    assert_eq!(bench.switch.flows().iter().filter(|flow| flow.tcp == Some(vfp::TcpState::Open)).count(), 2);
}

#[test]
fn asking_counts_and_remembers_nothing() {
    let (mut bench, a, _) = Bench::pair(vec![layer("acl", true, vec![rule("n", 1, Conditions::any(), Action::Count)], vec![])]);
    bench.pass(a, &there(ACK));
    let before = bench.switch.rules().iter().map(|rule| rule.packets).collect::<Vec<_>>();
    bench.refilter(a, vec![layer("acl", true, vec![block("no", 1, Conditions::any())], vec![])]);
    let mut frame = wire::Frame::from_bytes(&there(ACK));
    let said = bench.switch.simulate(bench.now, a, &mut frame, None);
    assert_eq!(said.drop_reason(), Some(DropReason::AclBlock));
    bench.refilter(a, vec![layer("acl", true, vec![rule("n", 1, Conditions::any(), Action::Count)], vec![])]);
    assert_eq!(bench.send(a, &there(ACK)).tier, Tier::Connection, "it was not ended by the question");
    assert_eq!(before.iter().sum::<u64>() + 1, bench.switch.rules().iter().map(|rule| rule.packets).sum::<u64>());
}

#[test]
fn what_is_routed_to_the_node_itself_notices_the_rules_of_the_wire() {
    let mut bench = Bench::new();
    let [pods, wire, host] = ["pods", "wire", "host"].map(|name| bench.domain(name));
    let uplink = bench.port("uplink", PortKind::Uplink, wire, 100, &[], ProgramSpec::default());
    let node = bench.nic("node", host, 50, "192.168.0.1");
    let routes = vec![(prefix("0.0.0.0/0"), NextHop::Gateway(ip("192.168.0.254")))];
    let underlay = bench.switch.add_underlay(UnderlaySpec { uplink, mac: mac(100), routes });
    bench.switch.set_neighbour(underlay, ip("192.168.0.254"), Some(mac(254))).expect("the underlay");
    let layers = vec![layer("route", true, vec![rule("all", 1, Conditions::any(), Action::Route(underlay))], vec![])];
    let pod = bench.port("pod", PortKind::Nic, pods, 1, &["10.0.0.1"], ProgramSpec { layers });
    bench.deliver(wire, "192.168.0.1", node, 50);
    let out = udp((1, 9), ("10.0.0.1", 1000), ("192.168.0.1", 53), b"question");
    assert_eq!([(); 2].map(|()| bench.pass(pod, &out).0.port), [node; 2]);
    bench.switch.remove_rules(wire, [(Stage::ForwardIn, "to 192.168.0.1")]).expect("the domain");
    assert_eq!(bench.pass(pod, &out).0.port, uplink);
    bench.deliver(wire, "192.168.0.1", node, 50);
    assert_eq!([(); 2].map(|()| bench.pass(pod, &out).0.port), [node; 2]);
    bench.switch.remove_underlay(underlay).expect("the underlay");
    assert_eq!(bench.fail(pod, &out), DropReason::NoRoute);
}

/// Where the way back is not the way there, answers are a connection of their own. Their own answers would look like the first
/// connection's packets, which is no harm as nothing is translated.
#[test]
fn answers_that_come_by_another_way_are_not_dropped() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let domain = bench.first_domain();
    let router = bench.nic("router", domain, 3, "10.0.0.3");
    let by_router = Action::Forward { port: router, source_mac: None, destination_mac: Some(mac(3)) };
    let there = Conditions { sources: vec![AddressMatch::host(ip("10.0.0.1"))], ..Conditions::to(ip("10.0.0.2")) };
    bench.switch.put_rules(domain, [(Stage::ForwardOut, rule("by the router", 1, there, by_router))]).expect("the domain");
    let (sent, answer) = (tcp((1, 9), ("10.0.0.1", 1000), ("10.0.0.2", 80), 16), tcp((2, 9), ("10.0.0.2", 80), ("10.0.0.1", 1000), 18));
    for _ in 0..2 {
        assert_eq!(bench.pass(a, &sent).0.port, router);
        assert_eq!(bench.pass(b, &answer).0.port, a);
    }
    assert_eq!(bench.switch.counters().connections_made, 2);
}

/// A port that hides behind the node's hardware address may answer by way of the node: that is the same connection.
#[test]
fn answers_by_way_of_the_node_belong_to_the_connection() {
    for hidden in [true, false] {
        let mut bench = Bench::new();
        let domain = bench.domain("switch");
        let uplink = bench.port("uplink", PortKind::Uplink, domain, 50, &[], ProgramSpec::default());
        let node = bench.nic("node", domain, 100, "192.168.0.1");
        let closed = layer("acl", true, vec![block("begins nothing", 1, Conditions::any())], vec![]);
        let mut spec = port_spec("pod", PortKind::Nic, domain, 1, &["10.0.0.1"], ProgramSpec { layers: vec![closed] });
        spec.hidden_behind = hidden.then(|| mac(100));
        let pod = bench.switch.add_port(spec).expect("a free port");
        bench.deliver(domain, "10.0.0.1", pod, 1);
        let by_node = Action::Forward { port: node, source_mac: None, destination_mac: Some(mac(100)) };
        bench.switch.put_rules(domain, [(Stage::ForwardOut, rule("outside", 90, Conditions::any(), by_node))]).expect("the domain");
        bench.pass(uplink, &tcp((254, 50), ("203.0.113.5", 1000), ("10.0.0.1", 80), 2));
        let answer = tcp((1, 9), ("10.0.0.1", 80), ("203.0.113.5", 1000), 18);
        match hidden {
            true => assert_eq!(bench.pass(pod, &answer).0.port, node),
            false => assert_eq!(bench.fail(pod, &answer), DropReason::AclBlock, "it would go to somebody who never asked"),
        }
        assert_eq!(bench.switch.counters().connections_revoked, u64::from(!hidden));
    }
}
