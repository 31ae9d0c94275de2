//! Frames that come and go wrapped.

use vfp::{Action, Conditions, DomainId, DropReason, Outcome, PortId, PortKind, ProgramSpec, Stage, Tier};
use wire::{Encapsulation, Frame, TunnelKind, arp};

use super::bench::{Bench, ip, layer, mac, prefix, rule, tcp};
use super::frames::dont_fragment;

/// Two virtual networks, 7 and 8, that both have 10.0.0.1 here and 10.0.1.0/24 on another node.
pub(crate) struct Overlay {
    pub(crate) bench: Bench,
    pub(crate) domains: [DomainId; 2],
    pub(crate) pods: [PortId; 2],
    pub(crate) tunnel: PortId,
}

pub(crate) fn outer(vni: u32, remote: &str) -> Encapsulation {
    Encapsulation { kind: TunnelKind::Vxlan, vni, local: ip("192.168.0.1"), remote: ip(remote), port: 4789 }
}

pub(crate) fn overlay() -> Overlay {
    let bench = Bench::new();
    let domains = [7, 8].map(|vni| bench.domain(&format!("vni {vni}")));
    let underlay = bench.domain("underlay");
    let pop = |at: usize, vni| rule(&format!("vni {vni}"), 1, Conditions::of_vni(vni), Action::Pop { domain: domains[at] });
    let unknown = rule("unknown", 9, Conditions::any(), Action::Block(DropReason::UnknownVni));
    let layers = vec![layer("tunnel", false, vec![pop(0, 7), pop(1, 8), unknown], vec![])];
    let tunnel = bench.port("tunnel", PortKind::Tunnel, underlay, 100, &[], ProgramSpec { layers });
    let pods = [0, 1].map(|at| bench.nic(&format!("pod{at}"), domains[at], 1 + at as u8, "10.0.0.1"));
    for (at, vni) in [(0, 7), (1, 8)] {
        bench.deliver(domains[at], "10.0.0.1", pods[at], 1 + at as u8);
        let push = Action::Push {
            port: tunnel,
            encapsulation: outer(vni, "192.168.0.2"),
            source_mac: Some(mac(70)),
            destination_mac: Some(mac(60 + vni as u8)),
        };
        let far = rule("far", 20, Conditions::to_prefix(prefix("10.0.1.0/24")), push);
        bench.switch.put_rules(domains[at], [(Stage::ForwardOut, far.clone()), (Stage::ForwardIn, far)]).expect("the domain");
    }
    Overlay { bench, domains, pods, tunnel }
}

pub(crate) fn there() -> Vec<u8> {
    tcp((1, 9), ("10.0.0.1", 1000), ("10.0.1.5", 80), 16)
}

pub(crate) fn back() -> Vec<u8> {
    tcp((67, 70), ("10.0.1.5", 80), ("10.0.0.1", 1000), 16)
}

#[test]
fn each_network_has_its_own_addresses() {
    let mut overlay = overlay();
    for (at, vni) in [(0, 7), (1, 8)] {
        for tier in [Tier::New, Tier::Unified] {
            assert_eq!(overlay.bench.send(overlay.pods[at], &there()).tier, tier);
            let (egress, _, headers) = overlay.bench.next();
            assert_eq!((egress.port, egress.encapsulation), (overlay.tunnel, Some(outer(vni, "192.168.0.2"))));
            assert_eq!((headers.source_mac, headers.destination_mac), (mac(70), mac(60 + vni as u8)));
        }
        for tier in [Tier::Connection, Tier::Unified] {
            let verdict = overlay.bench.send_wrapped(overlay.tunnel, &back(), Some(&outer(vni, "192.168.0.2")));
            assert_eq!(verdict.tier, tier);
            assert_eq!(overlay.bench.next().0, vfp::Egress { port: overlay.pods[at], encapsulation: None });
        }
    }
    assert_eq!(overlay.bench.switch.counters().connections_made, 2);
}

#[test]
fn a_network_that_is_not_here_is_unknown() {
    let mut overlay = overlay();
    let verdict = overlay.bench.send_wrapped(overlay.tunnel, &back(), Some(&outer(9, "192.168.0.2")));
    assert_eq!((verdict.drop_reason(), overlay.bench.place(&verdict).as_str()), (Some(DropReason::UnknownVni), "tunnel/out/unknown"));
}

#[test]
fn nothing_goes_from_a_tunnel_into_a_tunnel() {
    let mut overlay = overlay();
    let onwards = tcp((67, 70), ("10.0.1.5", 1000), ("10.0.1.6", 80), 16);
    let verdict = overlay.bench.send_wrapped(overlay.tunnel, &onwards, Some(&outer(7, "192.168.0.2")));
    assert_eq!(verdict.drop_reason(), Some(DropReason::SplitHorizon));
    let mut asked = Frame::default();
    arp::request(ip("10.0.1.4"), mac(4), ip("10.0.1.5"), &mut asked);
    let push = Action::Push { port: overlay.tunnel, encapsulation: outer(7, "192.168.0.3"), source_mac: None, destination_mac: None };
    let far = rule("far", 1, Conditions::any(), push);
    overlay.bench.switch.put_rules(overlay.domains[0], [(Stage::NeighbourIn, far)]).expect("the domain");
    let verdict = overlay.bench.send_wrapped(overlay.tunnel, asked.bytes(), Some(&outer(7, "192.168.0.2")));
    assert_eq!(verdict.drop_reason(), Some(DropReason::SplitHorizon), "nor do neighbour messages");
}

#[test]
fn an_answer_goes_back_into_the_tunnel_it_came_from() {
    let mut overlay = overlay();
    let from = outer(7, "192.168.0.2");
    let asked = tcp((67, 1), ("172.16.0.1", 5), ("10.0.0.1", 80), 16);
    assert_eq!(overlay.bench.send_wrapped(overlay.tunnel, &asked, Some(&from)).drop_reason(), None);
    overlay.bench.next();
    let answer = tcp((1, 9), ("10.0.0.1", 80), ("172.16.0.1", 5), 16);
    for _ in 0..2 {
        let (egress, _, headers) = overlay.bench.pass(overlay.pods[0], &answer);
        assert_eq!((egress.port, egress.encapsulation), (overlay.tunnel, Some(from)), "though no rule knows the way");
        assert_eq!((headers.source_mac, headers.destination_mac), (mac(1), mac(67)));
    }
}

#[test]
fn a_neighbour_is_answered_through_the_tunnel() {
    let mut overlay = overlay();
    let answer = rule("own", 1, Conditions::to(ip("10.0.0.1")), Action::Answer(mac(1)));
    overlay.bench.switch.put_rules(overlay.domains[0], [(Stage::NeighbourIn, answer)]).expect("the domain");
    let mut asked = Frame::default();
    arp::request(ip("10.0.1.5"), mac(67), ip("10.0.0.1"), &mut asked);
    let from = outer(7, "192.168.0.2");
    assert_eq!(overlay.bench.send_wrapped(overlay.tunnel, asked.bytes(), Some(&from)).outcome, Outcome::Answered);
    assert_eq!(overlay.bench.next().0, vfp::Egress { port: overlay.tunnel, encapsulation: Some(from) });
}

#[test]
fn who_sends_too_much_through_a_tunnel_is_told_through_it() {
    let mut overlay = overlay();
    let from = outer(7, "192.168.0.2");
    let payload = [0; 2000];
    let large = super::frames::frame((mac(67), mac(1)), ip("10.0.1.5"), ip("10.0.0.1"), super::bench::Carries::Udp(1, 2), &payload);
    let verdict = overlay.bench.send_wrapped(overlay.tunnel, &dont_fragment(large), Some(&from));
    assert_eq!(verdict.drop_reason(), Some(DropReason::PacketTooBig));
    assert_eq!(overlay.bench.next().0, vfp::Egress { port: overlay.tunnel, encapsulation: Some(from) });
}
