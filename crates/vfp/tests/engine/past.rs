//! Answers that come back past the node that sent on what a NIC asked.

use std::sync::Arc;

use vfp::{Action, Backend, Backends, Conditions, DropReason, LayerSpec, PortId, PortKind, ProgramSpec, Service, Stage, Tier};

use super::bench::{Bench, Carries, allow, block, frame, ip, layer, mac, port_spec, rule};

/// A pod whose gateway is the node, and the node behind an uplink. What arrives for the pod goes to it at once.
struct Node {
    bench: Bench,
    pod: PortId,
    host: PortId,
    uplink: PortId,
}

/// Lets nothing in.
fn shut() -> LayerSpec {
    layer("acl", true, vec![], vec![block("in", 1, Conditions::any())])
}

fn node() -> Node {
    let bench = Bench::new();
    let (wire, own) = (bench.domain("wire"), bench.domain("host"));
    let pod = bench.port("pod", PortKind::Nic, wire, 1, &[], ProgramSpec { layers: vec![shut()] });
    let host = bench.port("host", PortKind::Nic, own, 50, &[], ProgramSpec::default());
    let uplink = bench.port("uplink", PortKind::Uplink, wire, 50, &[], ProgramSpec::default());
    for address in ["10.0.0.1", "fd00::1"] {
        bench.deliver(wire, address, pod, 1);
    }
    let to_node = Action::Forward { port: host, source_mac: None, destination_mac: Some(mac(50)) };
    let out = Action::Forward { port: uplink, source_mac: None, destination_mac: Some(mac(254)) };
    bench.switch.put_rules(wire, [(Stage::ForwardOut, rule("node", 20, Conditions::to_mac(mac(50)), to_node))]).expect("the domain");
    bench.switch.put_rules(own, [(Stage::ForwardOut, rule("out", 20, Conditions::any(), out))]).expect("the domain");
    Node { bench, pod, host, uplink }
}

fn ends(v4: bool) -> (wire::Ip, wire::Ip) {
    if v4 { (ip("10.0.0.1"), ip("8.8.8.8")) } else { (ip("fd00::1"), ip("2001:db8::8")) }
}

fn asked(v4: bool, port: u16, flags: u8) -> Vec<u8> {
    let (own, theirs) = ends(v4);
    frame((mac(1), mac(50)), own, theirs, Carries::Tcp(port, 443, flags), b"")
}

fn answered(v4: bool, port: u16, flags: u8) -> Vec<u8> {
    let (own, theirs) = ends(v4);
    frame((mac(254), mac(50)), theirs, own, Carries::Tcp(443, port, flags), b"")
}

impl Node {
    /// The pod asks, and the node sends it on.
    fn ask(&mut self, v4: bool, port: u16, flags: u8) {
        let (egress, frame, _) = self.bench.pass(self.pod, &asked(v4, port, flags));
        assert_eq!(egress.port, self.host);
        let (egress, _, _) = self.bench.pass(self.host, frame.bytes());
        assert_eq!(egress.port, self.uplink);
    }

    /// What becomes of an answer from the wire.
    fn answer(&mut self, v4: bool, port: u16, flags: u8) -> Result<Tier, DropReason> {
        let verdict = self.bench.send(self.uplink, &answered(v4, port, flags));
        if let Some(reason) = verdict.drop_reason() {
            return Err(reason);
        }
        assert_eq!(self.bench.next().0.port, self.pod);
        Ok(verdict.tier)
    }

    fn refilter(&self, layers: Vec<LayerSpec>) {
        let spec = port_spec("pod", PortKind::Nic, self.bench.first_domain(), 1, &[], ProgramSpec { layers });
        self.bench.switch.change_port(self.pod, spec).expect("the port");
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;

#[test]
fn they_pass_a_list_that_lets_nothing_in() {
    for v4 in [true, false] {
        let mut node = node();
        assert_eq!(node.answer(v4, 1000, SYN | ACK), Err(DropReason::AclBlock), "nobody has asked");
        node.ask(v4, 1000, SYN);
        assert_eq!(node.answer(v4, 1000, SYN | ACK), Ok(Tier::Connection));
        node.ask(v4, 1000, ACK);
        assert_eq!(node.answer(v4, 1000, ACK), Ok(Tier::Unified));
        assert_eq!(node.answer(v4, 1001, ACK), Err(DropReason::AclBlock), "that is another connection");
        let (own, theirs) = ends(v4);
        let other = frame((mac(254), mac(50)), theirs, own, Carries::Tcp(444, 1000, ACK), b"");
        assert_eq!(node.bench.fail(node.uplink, &other), DropReason::AclBlock);
        assert_eq!(node.bench.switch.counters().connections_made, 2);
    }
}

/// A service whose one backend is the other end.
fn service(v4: bool, vip: &str) -> LayerSpec {
    let backend = Backend { address: ends(v4).1, port: 443 };
    let service = Service { backends: Backends::new(vec![backend]), ..Service::default() };
    let conditions = Conditions { destination_ports: vec![80..=80], ..Conditions::to(ip(vip)) };
    layer("service", true, vec![rule("vip", 1, conditions, Action::Redirect(Arc::new(service)))], vec![])
}

#[test]
fn they_come_from_the_service_that_was_asked() {
    for (v4, vip) in [(true, "10.96.0.1"), (false, "fd00:96::1")] {
        let mut node = node();
        node.refilter(vec![shut(), service(v4, vip)]);
        let (own, theirs) = ends(v4);
        let ask = |node: &mut Node, flags: u8| {
            let question = frame((mac(1), mac(50)), own, ip(vip), Carries::Tcp(1000, 80, flags), b"");
            let (egress, frame, came) = node.bench.pass(node.pod, &question);
            assert_eq!((egress.port, came.id.destination, came.id.destination_port), (node.host, theirs, 443));
            assert_eq!(node.bench.pass(node.host, frame.bytes()).0.port, node.uplink);
        };
        let answer = |node: &mut Node, flags: u8| {
            let (egress, _, came) = node.bench.pass(node.uplink, &answered(v4, 1000, flags));
            assert_eq!((egress.port, came.id.source, came.id.source_port), (node.pod, ip(vip), 80));
            assert_eq!((came.id.destination, came.id.destination_port), (own, 1000));
        };
        ask(&mut node, SYN);
        for flags in [SYN | ACK, ACK, ACK] {
            answer(&mut node, flags);
            ask(&mut node, ACK);
        }
        // A change that leaves the service as it is leaves the connection alone.
        node.refilter(vec![shut(), service(v4, vip), layer("more", true, vec![allow("all", 1, Conditions::any())], vec![])]);
        answer(&mut node, ACK);
        // The backend may be asked directly besides, by the same port of the client.
        node.ask(v4, 1001, SYN);
        assert_eq!(node.answer(v4, 1001, SYN | ACK), Ok(Tier::Connection));
        // Without the service they are nobody's.
        node.refilter(vec![shut()]);
        assert_eq!(node.answer(v4, 1000, ACK), Err(DropReason::AclBlock));
    }
}

#[test]
fn they_are_nobodys_when_the_node_asks_by_itself() {
    let mut node = node();
    // The node's own process forges the pod's address; the pod has asked nothing.
    node.bench.pass(node.host, &asked(true, 1000, SYN));
    assert_eq!(node.answer(true, 1000, SYN | ACK), Err(DropReason::AclBlock));
}

#[test]
fn a_list_that_no_longer_lets_the_pod_ask_ends_them() {
    let mut node = node();
    node.ask(true, 1000, SYN);
    assert_eq!(node.answer(true, 1000, SYN | ACK), Ok(Tier::Connection));
    assert_eq!(node.answer(true, 1000, ACK), Ok(Tier::Unified));
    node.refilter(vec![shut(), layer("out", true, vec![allow("all", 1, Conditions::any())], vec![])]);
    assert_eq!(node.answer(true, 1000, ACK), Ok(Tier::Connection), "it is still allowed");
    node.refilter(vec![shut(), layer("out", true, vec![block("all", 1, Conditions::any())], vec![])]);
    assert_eq!(node.answer(true, 1000, ACK), Err(DropReason::AclBlock));
}

#[test]
fn a_list_of_the_node_ends_them_too() {
    let mut node = node();
    node.ask(true, 1000, SYN);
    assert_eq!(node.answer(true, 1000, SYN | ACK), Ok(Tier::Connection));
    assert_eq!(node.answer(true, 1000, ACK), Ok(Tier::Unified));
    let host = vfp::DomainId(2);
    let spec = port_spec("host", PortKind::Nic, host, 50, &[], ProgramSpec { layers: vec![shut()] });
    node.bench.switch.change_port(node.host, spec).expect("the port");
    assert_eq!(node.answer(true, 1000, ACK), Err(DropReason::AclBlock), "what was asked does not reach the node any more");
}

#[test]
fn a_pod_that_is_told_a_shorter_way_keeps_its_connection() {
    for v4 in [true, false] {
        for answered_before in [false, true] {
            let mut node = node();
            let out = Action::Forward { port: node.uplink, source_mac: None, destination_mac: None };
            let rules = [(Stage::ForwardOut, rule("out", 90, Conditions::any(), out))];
            node.bench.switch.put_rules(node.bench.first_domain(), rules).expect("the domain");
            node.ask(v4, 1000, SYN);
            if answered_before {
                assert_eq!(node.answer(v4, 1000, SYN | ACK), Ok(Tier::Connection));
            }
            // The node has said that the other end is on the link.
            let (own, theirs) = ends(v4);
            let direct = frame((mac(1), mac(77)), own, theirs, Carries::Tcp(1000, 443, ACK), b"");
            for _ in 0..2 {
                let (egress, _, came) = node.bench.pass(node.pod, &direct);
                assert_eq!((egress.port, came.id.source_port), (node.uplink, 1000));
                assert!(node.answer(v4, 1000, ACK).is_ok());
            }
            node.ask(v4, 1000, ACK);
            assert!(node.answer(v4, 1000, ACK).is_ok(), "and back again");
            assert_eq!(node.bench.switch.counters().connections_renamed, 0);
        }
    }
}

#[test]
fn they_end_with_the_connection_that_they_answer() {
    let mut node = node();
    node.ask(true, 1000, SYN);
    assert_eq!(node.answer(true, 1000, SYN | ACK), Ok(Tier::Connection));
    node.ask(true, 1000, ACK);
    // Open, and idle for less than it may be.
    for _ in 0..3 {
        node.bench.wait(3 * 3600);
        node.bench.sweep();
        assert!(node.answer(true, 1000, ACK).is_ok(), "answers keep it alive");
    }
    node.bench.wait(5 * 3600);
    node.bench.sweep();
    assert_eq!(node.bench.switch.connection_usage().0, 0);
    assert_eq!(node.answer(true, 1000, ACK), Err(DropReason::AclBlock));
}

#[test]
fn a_pod_that_breaks_off_is_not_answered_for_long() {
    let mut node = node();
    node.ask(true, 1000, SYN);
    assert_eq!(node.answer(true, 1000, SYN | ACK), Ok(Tier::Connection));
    assert_eq!(node.answer(true, 1000, ACK), Ok(Tier::Unified));
    node.ask(true, 1000, 4);
    node.bench.wait(11);
    node.bench.sweep();
    assert_eq!(node.answer(true, 1000, ACK), Err(DropReason::AclBlock));
}

#[test]
fn a_conversation_that_moves_to_another_port_goes_on_there() {
    let bench = Bench::new();
    let domain = bench.domain("switch");
    let [one, two, uplink] = [("one", PortKind::Nic, 1), ("two", PortKind::Nic, 2), ("uplink", PortKind::Uplink, 50)]
        .map(|(name, kind, last)| bench.port(name, kind, domain, last, &[], ProgramSpec::default()));
    let out = Action::Forward { port: uplink, source_mac: None, destination_mac: None };
    bench.switch.put_rules(domain, [(Stage::ForwardOut, rule("out", 9, Conditions::any(), out))]).expect("the domain");
    let mut node = Node { pod: one, host: two, uplink, bench };
    for port in [one, two, one] {
        let forward = Action::Forward { port, source_mac: None, destination_mac: None };
        let rules = [(Stage::ForwardIn, rule("pod", 1, Conditions::to(ip("10.0.0.1")), forward))];
        node.bench.switch.put_rules(domain, rules).expect("the domain");
        let (_, _, came) = node.bench.pass(port, &asked(true, 1000, ACK));
        assert_eq!(came.id.source_port, 1000);
        node.pod = port;
        assert!(node.answer(true, 1000, ACK).is_ok());
    }
    assert_eq!(node.bench.switch.connection_usage().0, 1);
}
