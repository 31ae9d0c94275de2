//! Frames for groups of receivers.

use vfp::{Conditions, DomainId, DropReason, Flood, Outcome, PortId, PortKind, ProgramSpec};
use wire::{Frame, MacAddress};

use super::bench::{Bench, Carries, block, frame, ip, layer, mac, port_spec};
use super::outside::Node;

fn to_group(last: u8) -> Vec<u8> {
    let everybody = MacAddress([0xff; 6]);
    frame((mac(last), everybody), ip("10.0.0.1"), ip("224.0.0.251"), Carries::Udp(5353, 5353), b"who is there")
}

/// Two NICs, of which the first is hidden behind the uplink's address, an uplink and a tunnel.
fn bench(flood: Flood) -> (Bench, [PortId; 4]) {
    let bench = Bench::new();
    let domain = bench.domain("bridge");
    change(&bench, flood);
    let mut spec = port_spec("a", PortKind::Nic, domain, 1, &["10.0.0.1"], ProgramSpec::default());
    spec.hidden_behind = Some(mac(100));
    let a = bench.switch.add_port(spec).expect("a free port");
    let b = bench.nic("b", domain, 2, "10.0.0.2");
    let uplink = bench.port("uplink", PortKind::Uplink, domain, 100, &[], ProgramSpec::default());
    let tunnel = bench.port("tunnel", PortKind::Tunnel, domain, 101, &[], ProgramSpec::default());
    (bench, [a, b, uplink, tunnel])
}

fn change(bench: &Bench, flood: Flood) {
    let spec = vfp::DomainSpec { name: "bridge".into(), flood, other_protocols: false };
    bench.switch.change_domain(bench.first_domain(), spec).expect("the domain");
}

/// Who gets a frame that a port sends.
fn receivers(bench: &mut Bench, port: PortId, bytes: &[u8]) -> Vec<PortId> {
    let verdict = bench.send(port, bytes);
    let sent: Vec<PortId> = bench.out.sent.drain(..).map(|(egress, _)| egress.port).collect();
    match sent.len() {
        0 => assert_eq!(verdict.drop_reason(), Some(DropReason::GroupNotForwarded)),
        count => assert_eq!(verdict.outcome, Outcome::Flooded(count as u32)),
    }
    sent
}

#[test]
fn who_receives_depends_on_the_domain() {
    let (mut bench, [a, b, uplink, _]) = bench(Flood::Nobody);
    assert_eq!(receivers(&mut bench, a, &to_group(1)), []);
    change(&bench, Flood::Everybody);
    assert_eq!(receivers(&mut bench, a, &to_group(1)), [b, uplink], "and not into the tunnel");
    assert_eq!(receivers(&mut bench, uplink, &to_group(9)), [a, b]);
    change(&bench, Flood::Listed);
    assert_eq!(receivers(&mut bench, a, &to_group(1)), [uplink]);
    assert_eq!(receivers(&mut bench, uplink, &to_group(9)), []);
    bench.switch.list_port(DomainId(1), b, true).expect("the domain");
    assert_eq!(receivers(&mut bench, a, &to_group(1)), [b, uplink]);
    assert_eq!(receivers(&mut bench, uplink, &to_group(9)), [b]);
    bench.switch.list_port(DomainId(1), b, false).expect("the domain");
    assert_eq!(receivers(&mut bench, uplink, &to_group(9)), []);
}

#[test]
fn a_frame_to_one_machine_but_a_group_of_addresses_is_for_the_group() {
    let (mut bench, [a, b, uplink, _]) = bench(Flood::Everybody);
    let mut bytes = to_group(1);
    bytes[..6].copy_from_slice(&mac(2).0);
    assert_eq!(receivers(&mut bench, a, &bytes), [b, uplink]);
}

#[test]
fn outside_the_sender_is_hidden() {
    let (mut bench, [a, b, uplink, _]) = bench(Flood::Everybody);
    bench.send(a, &to_group(1));
    for (port, source) in [(b, mac(1)), (uplink, mac(100))] {
        let (egress, left, headers) = bench.next();
        assert_eq!((egress.port, headers.source_mac), (port, source));
        assert_eq!(left.bytes()[12..], to_group(1)[12..]);
    }
}

#[test]
fn each_copy_is_filtered_by_its_receiver() {
    let (mut bench, [a, b, uplink, _]) = bench(Flood::Everybody);
    let deaf = layer("acl", true, vec![], vec![block("deaf", 1, Conditions::any())]);
    let spec = |layers| port_spec("b", PortKind::Nic, DomainId(1), 2, &["10.0.0.2"], ProgramSpec { layers });
    bench.switch.change_port(b, spec(vec![deaf])).expect("the port");
    assert_eq!(receivers(&mut bench, a, &to_group(1)), [uplink]);
    let deaf = bench.switch.rules().iter().find(|rule| rule.place.rule == "deaf").map(|rule| rule.packets);
    assert_eq!(deaf, Some(1));
    let mute = layer("acl", true, vec![block("mute", 1, Conditions::any())], vec![]);
    bench.switch.change_port(b, spec(vec![mute])).expect("the port");
    let verdict = bench.send(b, &to_group(2));
    assert_eq!((verdict.drop_reason(), bench.place(&verdict).as_str()), (Some(DropReason::AclBlock), "acl/out/mute"));
}

#[test]
fn a_copy_that_does_not_fit_is_not_made() {
    let (mut bench, [a, b, uplink, _]) = bench(Flood::Everybody);
    let mut spec = port_spec("b", PortKind::Nic, DomainId(1), 2, &["10.0.0.2"], ProgramSpec::default());
    spec.mtu = 100;
    bench.switch.change_port(b, spec).expect("the port");
    let large = frame((mac(1), MacAddress([0xff; 6])), ip("10.0.0.1"), ip("224.0.0.251"), Carries::Udp(1, 2), &[0; 200]);
    assert_eq!(receivers(&mut bench, a, &large), [uplink]);
}

#[test]
fn what_would_be_translated_does_not_go_to_a_group() {
    let mut node = Node::new(61000..=61999);
    let spec = vfp::DomainSpec { name: "pods".into(), flood: Flood::Everybody, other_protocols: false };
    node.bench.switch.change_domain(node.domain, spec).expect("the domain");
    assert_eq!(node.bench.fail(node.pod, &to_group(1)), DropReason::GroupNotForwarded);
    assert_eq!(node.leases(), 0);
}

#[test]
fn what_is_not_ip_is_flooded_only_where_the_domain_says_so() {
    let (mut bench, [a, ..]) = bench(Flood::Everybody);
    let mut bytes = to_group(1);
    bytes[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(bench.fail(a, &bytes), DropReason::NotIp);
    let spec = vfp::DomainSpec { name: "bridge".into(), flood: Flood::Everybody, other_protocols: true };
    bench.switch.change_domain(DomainId(1), spec).expect("the domain");
    assert_eq!(bench.send(a, Frame::from_bytes(&bytes).bytes()).outcome, Outcome::Flooded(2));
}

#[test]
fn a_port_that_takes_the_number_of_another_does_not_take_its_place_in_a_list() {
    let (mut bench, [a, b, uplink, _]) = bench(Flood::Listed);
    let elsewhere = bench.domain("elsewhere");
    bench.switch.list_port(DomainId(1), b, true).expect("the domain");
    let moved = port_spec("b", PortKind::Nic, elsewhere, 2, &["10.0.0.2"], ProgramSpec::default());
    bench.switch.change_port(b, moved).expect("the port");
    bench.switch.remove_port(b).expect("the port");
    assert_eq!(bench.nic("stranger", elsewhere, 3, "10.0.0.3"), b);
    assert_eq!(receivers(&mut bench, a, &to_group(1)), [uplink]);
}
