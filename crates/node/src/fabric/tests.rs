use vfp::{Egress, Instant, Outcome, Sink, UnderlayId};
use wire::{Frame, Ip};

use super::*;

#[derive(Default)]
struct Last {
    sent: Option<(Egress, Vec<u8>)>,
    scratch: Frame,
}

impl Sink for Last {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        self.sent = Some((*egress, frame.bytes().to_vec()));
    }

    fn resolve(&mut self, _underlay: UnderlayId, _next_hop: Ip, _port: PortId, _frame: &Frame) {}

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

fn config() -> Config {
    let link = |interface: &str, last: u8, address: &str| Link {
        interface: interface.into(),
        mac: Some(MacAddress([2, 0, 0, 0, 0, last])),
        addresses: vec![address.parse().expect("a prefix")],
    };
    let rule = Rule {
        name: "no secrets".into(),
        action: RuleAction::Block,
        priority: 10,
        protocols: vec![17],
        sources: Vec::new(),
        destinations: Vec::new(),
        ports: vec!["7000-7010".into()],
    };
    Config {
        mac: MacAddress([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]),
        links: vec![link("n1", 1, "10.0.1.0/24"), link("n2", 2, "10.0.2.0/24")],
        routes: vec![Route { prefix: "0.0.0.0/0".parse().expect("a prefix"), link: "n2".into() }],
        rules: vec![rule],
    }
}

fn datagram(from: [u8; 4], to: [u8; 4], port: u16) -> Frame {
    let mut bytes = vec![0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 2, 0, 0, 0, 0, 1, 8, 0];
    let mut header = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    header.extend(from);
    header.extend(to);
    let sum = !wire::checksum::sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(header);
    bytes.extend([0x10, 0x00]);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 8, 0, 0]);
    Frame::from_bytes(&bytes)
}

#[test]
fn packets_go_to_the_node_behind_whose_link_they_are_also_back_to_the_same() {
    let fabric = Fabric::new(config(), 7).expect("a fabric");
    let cases = [([10, 0, 1, 5], 0, 1), ([10, 0, 2, 5], 1, 2), ([8, 8, 8, 8], 1, 2)];
    for (to, link, last) in cases {
        let mut sink = Last::default();
        fabric.switch.process(Instant(1), fabric.ports[0], &mut datagram([10, 0, 1, 4], to, 53), None, &mut sink);
        let (egress, bytes) = sink.sent.expect("it was sent");
        assert_eq!(egress.port, fabric.ports[link]);
        assert_eq!(bytes[..6], [2, 0, 0, 0, 0, last]);
        assert_eq!(bytes[6..12], config().mac.0);
    }
}

#[test]
fn rules_of_the_fabric_hold_between_neighbours() {
    let fabric = Fabric::new(config(), 7).expect("a fabric");
    let verdict =
        fabric.switch.process(Instant(1), fabric.ports[0], &mut datagram([10, 0, 1, 4], [10, 0, 1, 5], 7005), None, &mut Last::default());
    assert_eq!(verdict.outcome, Outcome::Dropped(DropReason::AclBlock));
    assert_eq!(fabric.switch.place(verdict.rule).expect("a rule").rule, "no secrets");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let mut unknown = config();
    unknown.routes[0].link = "n9".into();
    assert!(unknown.check().unwrap_err().to_string().contains("n9"));
    let mut wrong = config();
    wrong.rules[0].ports = vec!["90-80".into()];
    assert!(wrong.check().unwrap_err().to_string().contains("90-80"));
    let mut empty = config();
    empty.links.clear();
    assert!(empty.check().is_err());
    let mut twice = config();
    twice.links[1].interface = "n1".into();
    assert!(twice.check().unwrap_err().to_string().contains("twice"));
}
