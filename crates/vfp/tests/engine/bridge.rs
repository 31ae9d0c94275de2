//! Two NICs on one domain, and an uplink with translation.

use vfp::{
    Action, Conditions, DropReason, GroupSpec, LayerSpec, NatPoolSpec, NextHop, Outcome, PortKind, ProgramSpec, RuleSpec, Tier,
    UnderlaySpec,
};

use super::bench::{Bench, assert_checksums, ip, mac, tcp, udp};

#[test]
fn the_first_packet_walks_and_the_second_is_known() {
    let mut bench = Bench::new();
    let domain = bench.domain("switch");
    let a = bench.nic("a", domain, 1, "10.0.0.1");
    let b = bench.nic("b", domain, 2, "10.0.0.2");
    bench.deliver(domain, "10.0.0.1", a, 1);
    bench.deliver(domain, "10.0.0.2", b, 2);
    let data = tcp((1, 9), ("10.0.0.1", 1000), ("10.0.0.2", 80), 16);
    for tier in [Tier::New, Tier::Unified] {
        let verdict = bench.send(a, &data);
        assert_eq!(verdict.tier, tier);
        let (egress, frame, headers) = bench.next();
        assert_eq!(egress.port, b);
        assert_eq!((headers.destination_mac, headers.source_mac), (mac(2), mac(1)));
        assert_checksums(frame.bytes());
        assert_eq!(bench.switch.place(verdict.rule).expect("a rule").to_string(), "forward/from-nic/to 10.0.0.2");
    }
    let answer = tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), 18);
    assert_eq!(bench.send(b, &answer).tier, Tier::Connection);
    assert_eq!(bench.send(b, &answer).tier, Tier::Unified);
    assert_eq!(bench.switch.flows().len(), 2);
    let counters = bench.switch.counters();
    assert_eq!((counters.unified, counters.connection, counters.new, counters.connections_made), (2, 1, 1, 1));
}

#[test]
fn a_stateful_block_lets_answers_through() {
    let mut bench = Bench::new();
    let domain = bench.domain("switch");
    let block =
        GroupSpec { name: "in".into(), rules: vec![RuleSpec::new("nobody", 1, Conditions::any(), Action::Block(DropReason::AclBlock))] };
    let acl = LayerSpec { name: "acl".into(), stateful: true, outward: vec![], inward: vec![block], ..LayerSpec::default() };
    let a = bench.port("a", PortKind::Nic, domain, 1, &["10.0.0.1"], ProgramSpec { layers: vec![acl] });
    let b = bench.nic("b", domain, 2, "10.0.0.2");
    bench.deliver(domain, "10.0.0.1", a, 1);
    bench.deliver(domain, "10.0.0.2", b, 2);
    let refused = bench.send(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), 2));
    assert_eq!(refused.drop_reason(), Some(DropReason::AclBlock));
    assert_eq!(bench.switch.place(refused.rule).expect("a rule").to_string(), "acl/in/nobody");
    bench.send(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), 2));
    assert!(matches!(bench.send(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), 18)).outcome, Outcome::Forwarded(_)));
}

#[test]
fn translation_to_the_outside_and_back() {
    let mut bench = Bench::new();
    let domain = bench.domain("switch");
    let uplink = bench.port("uplink", PortKind::Uplink, domain, 100, &[], ProgramSpec::default());
    let underlay = bench.switch.add_underlay(UnderlaySpec {
        uplink,
        mac: mac(100),
        routes: vec![("0.0.0.0/0".parse().expect("a prefix"), NextHop::Gateway(ip("192.168.0.254")))],
    });
    let pool = bench.switch.add_pool(NatPoolSpec { ports: 61000..=61999 });
    let nat = Action::SourceNat { pool, address: ip("192.168.0.1"), underlay, most: None };
    let group = GroupSpec { name: "outbound".into(), rules: vec![RuleSpec::new("all", 1, Conditions::any(), nat)] };
    let layer = LayerSpec { name: "nat".into(), stateful: true, outward: vec![group], ..LayerSpec::default() };
    let pod = bench.port("pod", PortKind::Nic, domain, 1, &["10.0.0.1"], ProgramSpec { layers: vec![layer] });
    bench.deliver(domain, "10.0.0.1", pod, 1);
    let out = udp((1, 9), ("10.0.0.1", 5353), ("8.8.8.8", 53), b"question");
    assert_eq!(bench.send(pod, &out).drop_reason(), Some(DropReason::NoNeighbour));
    assert_eq!(bench.out.wanted, [(underlay, ip("192.168.0.254"))]);
    bench.switch.set_neighbour(underlay, ip("192.168.0.254"), Some(mac(254))).expect("the underlay");
    bench.send(pod, &out);
    let (egress, frame, headers) = bench.next();
    assert_eq!(egress.port, uplink);
    assert_eq!((headers.id.source, headers.destination_mac, headers.source_mac), (ip("192.168.0.1"), mac(254), mac(100)));
    assert_checksums(frame.bytes());
    let port = headers.id.source_port;
    assert!((61000..=61999).contains(&port));
    let back = udp((254, 100), ("8.8.8.8", 53), ("192.168.0.1", port), b"answer");
    for _ in 0..2 {
        bench.send(uplink, &back);
        let (egress, frame, headers) = bench.next();
        assert_eq!(egress.port, pod);
        assert_eq!((headers.id.destination, headers.id.destination_port, headers.destination_mac), (ip("10.0.0.1"), 5353, mac(1)));
        assert_checksums(frame.bytes());
    }
    bench.send(pod, &out);
    assert_eq!(bench.next().2.id.source_port, port, "a connection keeps its port");
}
