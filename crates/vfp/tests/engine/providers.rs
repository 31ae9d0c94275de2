//! Whom a tunnel believes: nodes that rules push to, and of those only what they can have sent.

use vfp::{Action, Conditions, DropReason, Stage, Tier};

use super::bench::{ip, mac, prefix, rule, tcp, udp};
use super::outside::Node;
use super::tunnels::{Overlay, back, outer, overlay, there};

/// The node that has 10.0.1.0/24, one that has 10.0.2.0/24, and one that has nothing.
const OWNER: &str = "192.168.0.2";
const OTHER: &str = "192.168.0.3";
const STRANGER: &str = "192.168.0.66";

/// As [`overlay`], with one more node in the first network.
fn three_nodes() -> Overlay {
    let overlay = overlay();
    let push = Action::Push { port: overlay.tunnel, encapsulation: outer(7, OTHER), source_mac: None, destination_mac: None };
    let third = rule("third", 20, Conditions::to_prefix(prefix("10.0.2.0/24")), push);
    overlay.bench.switch.put_rules(overlay.domains[0], [(Stage::ForwardOut, third)]).expect("the domain");
    overlay
}

impl Overlay {
    fn arrive(&mut self, bytes: &[u8], from: &str) -> Result<Tier, DropReason> {
        let verdict = self.bench.send_wrapped(self.tunnel, bytes, Some(&outer(7, from)));
        self.bench.out.sent.clear();
        verdict.drop_reason().map_or(Ok(verdict.tier), Err)
    }
}

fn from_inside(source: &str) -> Vec<u8> {
    tcp((67, 70), (source, 80), ("10.0.0.1", 1000), 2)
}

#[test]
fn a_stranger_is_not_believed() {
    let mut overlay = three_nodes();
    for source in ["10.0.1.5", "10.0.2.5", "10.0.0.1", "8.8.8.8"] {
        assert_eq!(overlay.arrive(&from_inside(source), STRANGER), Err(DropReason::UnknownProvider), "{source}");
    }
    assert_eq!(overlay.arrive(&from_inside("10.0.1.5"), OWNER), Ok(Tier::New));
}

#[test]
fn a_stranger_cannot_take_part_in_a_flow_that_is_known() {
    let mut overlay = three_nodes();
    overlay.bench.pass(overlay.pods[0], &there());
    assert_eq!(overlay.arrive(&back(), OWNER), Ok(Tier::Connection));
    assert_eq!(overlay.arrive(&back(), OWNER), Ok(Tier::Unified));
    assert_eq!(overlay.arrive(&back(), STRANGER), Err(DropReason::UnknownProvider));
    assert_eq!(overlay.arrive(&back(), OTHER), Err(DropReason::SpoofedSource));
    assert_eq!(overlay.arrive(&back(), OWNER), Ok(Tier::Unified), "the flow is as it was");
}

#[test]
fn nobody_sends_as_an_endpoint_of_this_node_or_of_another() {
    let mut overlay = three_nodes();
    assert_eq!(overlay.arrive(&tcp((67, 70), ("10.0.0.1", 80), ("10.0.0.1", 1000), 2), OWNER), Err(DropReason::SpoofedSource));
    assert_eq!(overlay.arrive(&from_inside("10.0.1.5"), OTHER), Err(DropReason::SpoofedSource));
    assert_eq!(overlay.arrive(&from_inside("10.0.2.5"), OWNER), Err(DropReason::SpoofedSource));
    for (source, node) in [("10.0.1.5", OWNER), ("10.0.2.5", OTHER), ("192.168.0.2", OWNER), ("8.8.8.8", OTHER)] {
        assert_eq!(overlay.arrive(&from_inside(source), node), Ok(Tier::New), "{source} of {node}");
    }
}

#[test]
fn a_node_that_no_rule_pushes_to_any_more_is_a_stranger() {
    let mut overlay = three_nodes();
    assert_eq!(overlay.arrive(&from_inside("8.8.8.8"), OTHER), Ok(Tier::New));
    overlay.bench.switch.remove_rules(overlay.domains[0], [(Stage::ForwardOut, "third")]).expect("the domain");
    assert_eq!(overlay.arrive(&from_inside("8.8.8.8"), OTHER), Err(DropReason::UnknownProvider));
}

#[test]
fn an_address_of_this_very_node_is_nobodys() {
    // Clients of HNS name addresses of Services as places on their own node.
    let mut overlay = three_nodes();
    let push = Action::Push { port: overlay.tunnel, encapsulation: outer(7, "192.168.0.1"), source_mac: None, destination_mac: None };
    let service = rule("service", 20, Conditions::to(ip("10.96.0.1")), push);
    overlay.bench.switch.put_rules(overlay.domains[0], [(Stage::ForwardOut, service)]).expect("the domain");
    assert_eq!(overlay.arrive(&from_inside("10.96.0.1"), OWNER), Ok(Tier::New), "a backend answers in the name of its service");
    assert_eq!(overlay.arrive(&from_inside("8.8.8.8"), "192.168.0.1"), Err(DropReason::UnknownProvider));
}

#[test]
fn translation_makes_nobody_a_tunnel() {
    let mut node = Node::new(61000..=61999);
    let forged = udp((1, 9), ("10.0.0.1", 1000), ("8.8.8.8", 4789), b"\x08\0\0\0\0\0\x07\0");
    node.bench.pass(node.pod, &forged);
    // Now that there is a tunnel, it would pass for one of its packets.
    let domain = node.bench.domain("overlay");
    let push = Action::Push { port: node.uplink, encapsulation: outer(7, OWNER), source_mac: None, destination_mac: Some(mac(60)) };
    let far = rule("far", 20, Conditions::to_prefix(prefix("10.0.1.0/24")), push);
    node.bench.switch.put_rules(domain, [(Stage::ForwardOut, far)]).expect("the domain");
    assert_eq!(node.bench.fail(node.pod, &forged), DropReason::ForgedTunnel);
    for other in [("8.8.8.8", 4790), ("8.8.4.4", 53)] {
        node.bench.pass(node.pod, &udp((1, 9), ("10.0.0.1", 1000), other, b"sound"));
    }
    node.bench.switch.remove_rules(domain, [(Stage::ForwardOut, "far")]).expect("the domain");
    node.bench.pass(node.pod, &forged);
}
