//! Roles that a NIC does not have: a router, or the owner of another's address.

use vfp::{DropReason, Outcome, PortId, PortKind, ProgramSpec, Stage};
use wire::{Frame, MacAddress, neighbour};

use super::bench::{Bench, Carries, frame, ip, mac, port_spec, rule};

/// Two NICs, of which the first is held to be no router.
fn pair() -> (Bench, PortId, PortId) {
    let (bench, a, b) = Bench::pair(vec![]);
    let mut spec = port_spec("a", PortKind::Nic, bench.first_domain(), 1, &["10.0.0.1", "fd00::1"], ProgramSpec::default());
    spec.router_guard = true;
    bench.switch.change_port(a, spec).expect("the port");
    (bench, a, b)
}

/// A message of a router to somebody: 134 is an advertisement, 137 a redirect.
fn router_message(kind: u8, from: u8, to: (&str, MacAddress)) -> Vec<u8> {
    let mut body = vec![kind, 0, 0, 0, 64, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0];
    body.extend([0; 24]);
    let mut bytes = frame((mac(from), to.1), mac(from).link_local(), ip(to.0), Carries::Raw(58), &body);
    // The hop limit of messages of one link.
    bytes[21] = 255;
    bytes
}

#[test]
fn who_is_no_router_cannot_say_so() {
    let (mut bench, a, b) = pair();
    for kind in [134, 137] {
        for to in [("fd00::2", mac(2)), ("ff02::1", MacAddress([0x33, 0x33, 0, 0, 0, 1]))] {
            assert_eq!(bench.fail(a, &router_message(kind, 1, to)), DropReason::RouterGuard);
        }
        bench.pass(b, &router_message(kind, 2, ("fd00::1", mac(1))));
    }
    // Nor with a header in front of it, or in pieces.
    let whole = router_message(134, 1, ("fd00::2", mac(2)));
    let mut hidden = whole[..54].to_vec();
    hidden[20] = 60;
    hidden.extend([58, 0, 1, 4, 0, 0, 0, 0]);
    hidden.extend(&whole[54..]);
    let length = (hidden.len() - 54) as u16;
    hidden[18..20].copy_from_slice(&length.to_be_bytes());
    assert_eq!(bench.fail(a, &hidden), DropReason::RouterGuard);
    let [first, later] = super::frames::pieces(&whole, 16, 3);
    assert_eq!(bench.fail(a, &first), DropReason::RouterGuard);
    assert_eq!(bench.fail(a, &later), DropReason::FragmentWithoutFirst);
}

#[test]
fn an_address_of_the_link_is_the_one_that_follows_from_the_hardware_address() {
    let (mut bench, a, _) = pair();
    assert_eq!(mac(1).link_local(), ip("fe80::215:5dff:fe00:1"));
    let to_all = rule("all", 1, vfp::Conditions::any(), vfp::Action::Answer(mac(2)));
    bench.switch.put_rules(bench.first_domain(), [(Stage::NeighbourOut, to_all)]).expect("the domain");
    let mut asked = Frame::default();
    for (speaker, believed) in [("fe80::215:5dff:fe00:1", true), ("fe80::1", false), ("fe80::215:5dff:fe00:2", false), ("fd00::1", true)] {
        assert!(neighbour::request(ip(speaker), mac(1), ip("fd00::2"), &mut asked));
        match believed {
            true => assert_eq!(bench.send(a, asked.bytes()).outcome, Outcome::Answered, "{speaker}"),
            false => assert_eq!(bench.fail(a, asked.bytes()), DropReason::SpoofedSource, "{speaker}"),
        }
        bench.out.sent.clear();
    }
    let mut claimed = Frame::default();
    for address in ["fe80::1", "fd00::2", "fd00::99"] {
        assert!(neighbour::announce(ip(address), mac(1), true, &mut claimed));
        assert_eq!(bench.fail(a, claimed.bytes()), DropReason::SpoofedSource, "{address}");
    }
}
