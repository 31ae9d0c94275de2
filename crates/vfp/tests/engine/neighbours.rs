//! ARP and neighbour discovery.

use vfp::{Action, Conditions, DropReason, Flood, Outcome, PortId, PortKind, ProgramSpec, Stage};
use wire::arp::Arp;
use wire::{Frame, Headers, Ip, MacAddress, arp, neighbour};

use super::bench::{Bench, assert_sound, ip, mac, port_spec, rule};

/// A NIC (10.0.0.1, fd00::1, hidden behind the uplink's address) and an uplink on one domain.
struct Link {
    bench: Bench,
    nic: PortId,
    uplink: PortId,
}

fn link() -> Link {
    let bench = Bench::new();
    let domain = bench.domain("bridge");
    let uplink = bench.port("uplink", PortKind::Uplink, domain, 100, &[], ProgramSpec::default());
    let mut spec = port_spec("nic", PortKind::Nic, domain, 1, &["10.0.0.1", "fd00::1"], ProgramSpec::default());
    spec.hidden_behind = Some(mac(100));
    let nic = bench.switch.add_port(spec).expect("a free port");
    Link { bench, nic, uplink }
}

impl Link {
    fn put(&self, stage: Stage, address: &str, action: Action) {
        let rule = rule(address, 1, Conditions::to(ip(address)), action);
        self.bench.switch.put_rules(self.bench.first_domain(), [(stage, rule)]).expect("the domain");
    }

    fn forward(&self, stage: Stage, address: &str, port: PortId, destination_mac: Option<MacAddress>) {
        self.put(stage, address, Action::Forward { port, source_mac: None, destination_mac });
    }
}

fn request(sender: &str, last: u8, target: &str) -> Frame {
    let mut frame = Frame::default();
    match ip(target).is_v4() {
        true => arp::request(ip(sender), mac(last), ip(target), &mut frame),
        false => assert!(neighbour::request(ip(sender), mac(last), ip(target), &mut frame)),
    }
    frame
}

fn reply_to(request: &Frame, last: u8) -> Frame {
    let headers = Headers::parse(request.bytes()).expect("it is sound");
    let mut frame = Frame::default();
    assert!(match headers.id.destination.is_v4() {
        true => arp::answer(request.bytes(), &headers, mac(last), &mut frame),
        false => neighbour::answer(request.bytes(), &headers, mac(last), false, &mut frame),
    });
    frame
}

/// The hardware address that a message tells, and who it says has it.
fn told(frame: &Frame) -> (Ip, MacAddress) {
    let headers = Headers::parse(frame.bytes()).expect("it is sound");
    match Arp::parse(frame.bytes(), &headers) {
        Some(arp) => (arp.sender, arp.sender_mac),
        None => {
            assert_sound(frame);
            (headers.id.source, neighbour::link_address(frame.bytes(), &headers).expect("an option"))
        }
    }
}

#[test]
fn the_switch_answers_where_a_rule_says_so() {
    for (own, target) in [("10.0.0.1", "10.0.0.254"), ("fd00::1", "fd00::fe")] {
        let mut link = link();
        link.put(Stage::NeighbourOut, target, Action::Answer(mac(99)));
        let verdict = link.bench.send(link.nic, request(own, 1, target).bytes());
        assert_eq!((verdict.outcome, link.bench.place(&verdict)), (Outcome::Answered, format!("neighbour/from-nic/{target}")));
        let (egress, answer, headers) = link.bench.next();
        assert_eq!((egress.port, headers.destination_mac, told(&answer)), (link.nic, mac(1), (ip(target), mac(99))));
        assert_eq!(link.bench.switch.counters().neighbours_answered, 1);
    }
}

#[test]
fn a_request_that_no_rule_knows_has_no_route() {
    let mut link = link();
    assert_eq!(link.bench.fail(link.nic, request("10.0.0.1", 1, "10.0.0.77").bytes()), DropReason::NoRoute);
}

#[test]
fn a_message_that_passes_speaks_of_the_address_on_the_wire() {
    for (own, target) in [("10.0.0.1", "10.0.0.254"), ("fd00::1", "fd00::fe")] {
        let mut link = link();
        link.forward(Stage::NeighbourOut, target, link.uplink, None);
        link.forward(Stage::ForwardIn, own, link.nic, Some(mac(1)));
        let (egress, asked, headers) = link.bench.pass(link.nic, request(own, 1, target).bytes());
        assert_eq!((egress.port, headers.source_mac, told(&asked)), (link.uplink, mac(100), (ip(own), mac(100))));
        let (egress, answer, headers) = link.bench.pass(link.uplink, reply_to(&asked, 254).bytes());
        assert_eq!((egress.port, headers.destination_mac, told(&answer)), (link.nic, mac(1), (ip(target), mac(254))));
        if let Some(arp) = Arp::parse(answer.bytes(), &headers) {
            assert_eq!(arp.target_mac, mac(1));
        }
    }
}

#[test]
fn an_answer_of_the_nic_passes_under_the_address_on_the_wire() {
    for (own, asker) in [("10.0.0.1", "10.0.0.254"), ("fd00::1", "fd00::fe")] {
        let mut link = link();
        link.forward(Stage::NeighbourIn, own, link.nic, Some(mac(1)));
        link.forward(Stage::ForwardOut, asker, link.uplink, None);
        let (egress, asked, headers) = link.bench.pass(link.uplink, request(asker, 254, own).bytes());
        assert_eq!((egress.port, headers.is_group()), (link.nic, true), "a request goes to the group it went to");
        let (egress, answer, headers) = link.bench.pass(link.nic, reply_to(&asked, 1).bytes());
        assert_eq!((egress.port, headers.source_mac, told(&answer)), (link.uplink, mac(100), (ip(own), mac(100))));
    }
}

#[test]
fn a_nic_speaks_for_itself_only() {
    let mut link = link();
    link.put(Stage::NeighbourOut, "10.0.0.254", Action::Answer(mac(99)));
    assert_eq!(link.bench.fail(link.nic, request("10.0.0.2", 1, "10.0.0.254").bytes()), DropReason::SpoofedSource);
    assert_eq!(link.bench.fail(link.nic, request("fd00::2", 1, "fd00::fe").bytes()), DropReason::SpoofedSource);
    let forged = reply_to(&request("10.0.0.254", 254, "10.0.0.2"), 1);
    assert_eq!(link.bench.fail(link.nic, forged.bytes()), DropReason::SpoofedSource);
    link.put(Stage::NeighbourOut, "fd00::fe", Action::Answer(mac(99)));
    assert_eq!(link.bench.fail(link.nic, request("fe80::1", 1, "fd00::fe").bytes()), DropReason::SpoofedSource);
    let own = mac(1).link_local().to_string();
    assert_eq!(link.bench.send(link.nic, request(&own, 1, "fd00::fe").bytes()).outcome, Outcome::Answered);
}

#[test]
fn a_nic_is_not_told_that_its_address_is_taken() {
    for (own, nobody) in [("10.0.0.1", "0.0.0.0"), ("fd00::1", "::")] {
        let mut link = link();
        link.put(Stage::NeighbourOut, own, Action::Answer(mac(99)));
        assert_eq!(link.bench.fail(link.nic, request(nobody, 1, own).bytes()), DropReason::SamePort);
        assert_eq!(link.bench.fail(link.nic, request(own, 1, own).bytes()), DropReason::SamePort, "an announcement");
    }
}

#[test]
fn an_announcement_from_the_wire_is_not_answered() {
    let mut link = link();
    link.put(Stage::NeighbourIn, "10.0.0.9", Action::Answer(mac(100)));
    assert_eq!(link.bench.fail(link.uplink, request("10.0.0.9", 9, "10.0.0.9").bytes()), DropReason::GroupNotForwarded);
}

#[test]
fn a_flooded_message_speaks_of_the_address_on_the_wire() {
    for (own, target) in [("10.0.0.1", "10.0.0.254"), ("fd00::1", "fd00::fe")] {
        let mut link = link();
        let domain = link.bench.first_domain();
        let spec = vfp::DomainSpec { name: "bridge".into(), flood: Flood::Everybody, other_protocols: false };
        link.bench.switch.change_domain(domain, spec).expect("the domain");
        let other = link.bench.nic("other", domain, 2, "10.0.0.2");
        link.put(Stage::NeighbourOut, target, Action::Flood);
        let asked = request(own, 1, target);
        assert_eq!(link.bench.send(link.nic, asked.bytes()).outcome, Outcome::Flooded(2));
        let (egress, outside, headers) = link.bench.next();
        assert_eq!((egress.port, headers.source_mac, told(&outside)), (link.uplink, mac(100), (ip(own), mac(100))));
        let (egress, inside, _) = link.bench.next();
        assert_eq!((egress.port, inside.bytes()), (other, asked.bytes()), "inside it is what it was");
    }
}

#[test]
fn a_rule_can_block_and_what_makes_no_sense_is_no_route() {
    let mut link = link();
    link.put(Stage::NeighbourOut, "10.0.0.3", Action::Block(DropReason::AclBlock));
    link.put(Stage::NeighbourOut, "10.0.0.4", Action::Allow);
    link.forward(Stage::NeighbourOut, "10.0.0.5", link.nic, None);
    link.forward(Stage::NeighbourOut, "10.0.0.6", PortId(40), None);
    let reasons = [("3", DropReason::AclBlock), ("4", DropReason::NoRoute), ("5", DropReason::SamePort), ("6", DropReason::PortGone)];
    for (last, reason) in reasons {
        assert_eq!(link.bench.fail(link.nic, request("10.0.0.1", 1, &format!("10.0.0.{last}")).bytes()), reason);
    }
}
