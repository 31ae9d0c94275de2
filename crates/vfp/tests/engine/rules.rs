//! Which rule decides, and what the verdict says about it.

use std::sync::Arc;

use vfp::{Action, AddressMatch, Conditions, DropReason, GroupSpec, LayerSpec, Outcome, PortId, Stage};
use wire::Frame;

use super::bench::{Bench, Carries, allow, block, echo, frame, ip, layer, mac, prefix, rule, tcp, udp};

const OPEN: u8 = 2;

/// What becomes of a frame when this is the first layer of its NIC, and where the rule stands.
fn sent(layers: Vec<LayerSpec>, bytes: &[u8]) -> (Option<DropReason>, String) {
    let (mut bench, a, _) = Bench::pair(layers);
    let verdict = bench.send(a, bytes);
    (verdict.drop_reason(), bench.place(&verdict))
}

fn syn() -> Vec<u8> {
    tcp((1, 9), ("10.0.0.1", 1000), ("10.0.0.2", 80), OPEN)
}

fn outward(rules: Vec<vfp::RuleSpec>) -> Vec<LayerSpec> {
    vec![layer("acl", false, rules, vec![])]
}

#[test]
fn the_lower_number_goes_first_and_among_equals_the_older() {
    let any = Conditions::any;
    let cases = [
        (vec![allow("late", 2, any()), block("early", 1, any())], Some("acl/out/early")),
        (vec![allow("early", 1, any()), block("late", 2, any())], None),
        (vec![block("older", 1, any()), allow("younger", 1, any())], Some("acl/out/older")),
        (vec![allow("older", 1, any()), block("younger", 1, any())], None),
    ];
    for (rules, blocked_by) in cases {
        let (reason, place) = sent(outward(rules), &syn());
        match blocked_by {
            Some(rule) => assert_eq!((reason, place.as_str()), (Some(DropReason::AclBlock), rule)),
            None => assert_eq!((reason, place.as_str()), (None, "forward/from-nic/to 10.0.0.2")),
        }
    }
}

fn groups(first: Vec<vfp::RuleSpec>, second: Vec<vfp::RuleSpec>) -> Vec<LayerSpec> {
    let group = |name: &str, rules| GroupSpec { name: name.into(), rules };
    vec![LayerSpec {
        name: "acl".into(),
        stateful: false,
        outward: vec![group("one", first), group("two", second)],
        ..LayerSpec::default()
    }]
}

#[test]
fn allow_ends_the_layer_and_pass_leaves_it_to_the_next_group() {
    let any = Conditions::any;
    let blocked = (Some(DropReason::AclBlock), "acl/two/no".to_owned());
    assert_eq!(sent(groups(vec![allow("yes", 1, any())], vec![block("no", 1, any())]), &syn()).0, None);
    let pass = rule("next", 1, any(), Action::Pass);
    assert_eq!(sent(groups(vec![pass.clone(), block("unseen", 2, any())], vec![block("no", 1, any())]), &syn()), blocked);
    assert_eq!(sent(groups(vec![], vec![block("no", 1, any())]), &syn()), blocked, "a group without a match has no say");
    assert_eq!(sent(groups(vec![pass], vec![]), &syn()).0, None, "nobody objects");
}

#[test]
fn count_goes_on_in_the_same_group() {
    let count = rule("count", 1, Conditions::any(), Action::Count);
    let (mut bench, a, _) = Bench::pair(groups(vec![count, block("no", 2, Conditions::any())], vec![]));
    let frame = syn();
    let verdict = bench.send(a, &frame);
    assert_eq!(bench.place(&verdict), "acl/one/no");
    for name in ["count", "no"] {
        let rules = bench.switch.rules();
        let rule = rules.iter().find(|rule| rule.place.rule == name).expect("the rule");
        assert_eq!((rule.packets, rule.bytes), (1, frame.len() as u64), "{name}");
    }
}

#[test]
fn layers_are_met_in_order_outwards_and_in_reverse_inwards() {
    let both = |name: &str| layer(name, false, vec![block("out", 1, Conditions::any())], vec![block("in", 1, Conditions::any())]);
    let layers = vec![both("first"), both("second")];
    assert_eq!(sent(layers.clone(), &syn()).1, "first/out/out");
    let (mut bench, _, b) = Bench::pair(layers);
    let verdict = bench.send(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), OPEN));
    assert_eq!(bench.place(&verdict), "second/in/in");
}

/// Whether a rule with these conditions sees a frame.
fn sees(conditions: Conditions, bytes: &[u8]) -> bool {
    sent(outward(vec![block("it", 1, conditions)]), bytes).0 == Some(DropReason::AclBlock)
}

#[test]
fn every_condition_accepts_and_refuses() {
    let one = |text: &str| vec![AddressMatch::Prefix(prefix(text))];
    let set = |texts: &[&str]| vec![AddressMatch::Set(texts.iter().map(|text| prefix(text)).collect::<Arc<_>>())];
    let any = Conditions::any();
    let cases = [
        ("source", Conditions { sources: one("10.0.0.1/32"), ..any.clone() }, Conditions { sources: one("10.0.0.3/32"), ..any.clone() }),
        (
            "destination",
            Conditions { destinations: one("10.0.0.0/24"), ..any.clone() },
            Conditions { destinations: one("10.0.1.0/24"), ..any.clone() },
        ),
        (
            "set",
            Conditions { sources: set(&["1.0.0.0/8", "10.0.0.0/31"]), ..any.clone() },
            Conditions { sources: set(&["1.0.0.0/8"]), ..any.clone() },
        ),
        ("empty set", any.clone(), Conditions { sources: set(&[]), ..any.clone() }),
        ("empty set of destinations", any.clone(), Conditions { destinations: set(&[]), ..any.clone() }),
        (
            "alternatives",
            Conditions { sources: [one("9.0.0.0/8"), one("10.0.0.1/32")].concat(), ..any.clone() },
            Conditions { sources: [one("9.0.0.0/8"), one("8.0.0.0/8")].concat(), ..any.clone() },
        ),
        ("family", Conditions { destinations: one("0.0.0.0/0"), ..any.clone() }, Conditions { destinations: one("::/0"), ..any.clone() }),
        (
            "family of the source",
            Conditions { sources: one("0.0.0.0/0"), ..any.clone() },
            Conditions { sources: one("::/0"), ..any.clone() },
        ),
        ("protocol", Conditions { protocols: vec![17, 6], ..any.clone() }, Conditions { protocols: vec![17], ..any.clone() }),
        (
            "source port",
            Conditions { source_ports: vec![1000..=1000], ..any.clone() },
            Conditions { source_ports: vec![1..=999], ..any.clone() },
        ),
        (
            "destination ports",
            Conditions { destination_ports: vec![443..=443, 79..=81], ..any.clone() },
            Conditions { destination_ports: vec![81..=65535], ..any.clone() },
        ),
        ("source MAC", Conditions { source_macs: vec![mac(1)], ..any.clone() }, Conditions { source_macs: vec![mac(2)], ..any.clone() }),
        ("destination MAC", Conditions::to_mac(mac(9)), Conditions::to_mac(mac(8))),
        ("ether type", Conditions { ether_types: vec![0x800], ..any.clone() }, Conditions { ether_types: vec![0x86dd], ..any.clone() }),
        ("virtual network", any.clone(), Conditions::of_vni(7)),
        (
            "two together",
            Conditions { protocols: vec![6], destination_ports: vec![80..=80], ..any.clone() },
            Conditions { protocols: vec![6], destination_ports: vec![81..=81], ..any },
        ),
    ];
    for (name, accepts, refuses) in cases {
        assert!(sees(accepts, &syn()), "{name} accepts");
        assert!(!sees(refuses, &syn()), "{name} refuses");
    }
}

#[test]
fn a_prefix_of_everything_is_of_its_family_only() {
    let six = tcp((1, 9), ("fd00::1", 1000), ("fd00::2", 80), OPEN);
    assert!(sees(Conditions::to_prefix(prefix("::/0")), &six));
    assert!(!sees(Conditions::to_prefix(prefix("0.0.0.0/0")), &six));
    assert!(!sees(Conditions::to_prefix(prefix("::/0")), &syn()));
}

#[test]
fn an_empty_set_accepts_nobody_not_even_who_has_no_address() {
    let nobody = Conditions { sources: vec![AddressMatch::Set([].into())], ..Conditions::any() };
    let unspecified = udp((1, 9), ("::", 1000), ("fd00::2", 80), b"");
    assert!(!sees(nobody, &unspecified));
}

#[test]
fn ranges_the_wrong_way_round_are_empty() {
    let backwards = Conditions { destination_ports: vec![std::ops::RangeInclusive::new(100, 50)], ..Conditions::any() };
    assert!(!sees(backwards, &syn()));
}

/// What the NIC at the other end gets, after a rule of the sender's own port.
fn acted(action: Action, bytes: &[u8]) -> Result<wire::Headers, DropReason> {
    let (mut bench, a, _) = Bench::pair(outward(vec![rule("it", 1, Conditions::any(), action)]));
    match bench.send(a, bytes).outcome {
        Outcome::Dropped(reason) => Err(reason),
        _ => Ok(bench.next().2),
    }
}

fn modify() -> Action {
    Action::Modify {
        source_mac: Some(mac(77)),
        destination_mac: None,
        source: Some(ip("10.0.0.99")),
        destination: None,
        source_port: Some(99),
        destination_port: Some(81),
    }
}

#[test]
fn modify_changes_what_it_names() {
    let headers = acted(modify(), &syn()).expect("it passes");
    assert_eq!((headers.source_mac, headers.id.source), (mac(77), ip("10.0.0.99")));
    assert_eq!((headers.id.source_port, headers.id.destination_port), (99, 81));
    assert_eq!(headers.id.destination, ip("10.0.0.2"));
}

#[test]
fn what_cannot_be_modified_is_dropped() {
    let sctp = frame((mac(1), mac(9)), ip("10.0.0.1"), ip("10.0.0.2"), Carries::Sctp(1, 2), b"chunk");
    assert_eq!(acted(modify(), &sctp), Err(DropReason::UnsupportedProtocol), "its checksum covers the ports");
    assert_eq!(acted(modify(), &echo((1, 9), "10.0.0.1", "10.0.0.2", 5)), Err(DropReason::UnsupportedProtocol), "it has no ports");
    let six = tcp((1, 9), ("fd00::1", 1000), ("fd00::2", 80), OPEN);
    assert_eq!(acted(modify(), &six), Err(DropReason::UnsupportedProtocol), "the families differ");
}

#[test]
fn a_layer_cannot_say_where_a_frame_goes() {
    let forward = Action::Forward { port: PortId(1), source_mac: None, destination_mac: None };
    for action in [forward, Action::Flood, Action::Answer(mac(3))] {
        assert_eq!(acted(action, &syn()), Err(DropReason::RuleLoop));
    }
}

#[test]
fn a_domain_can_block_and_what_it_cannot_do_is_no_route() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    for (action, reason) in [(Action::Block(DropReason::NoBackend), DropReason::NoBackend), (Action::Allow, DropReason::NoRoute)] {
        let odd = rule("odd", 1, Conditions::to(ip("10.0.0.2")), action);
        bench.switch.put_rules(bench.first_domain(), [(Stage::ForwardOut, odd)]).expect("the domain");
        let verdict = bench.send(a, &syn());
        assert_eq!((verdict.drop_reason(), bench.place(&verdict).as_str()), (Some(reason), "forward/from-nic/odd"));
    }
}

#[test]
fn nothing_goes_nowhere_and_nothing_goes_back() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    assert_eq!(bench.fail(a, &tcp((1, 9), ("10.0.0.1", 1), ("10.9.9.9", 2), OPEN)), DropReason::NoRoute);
    assert_eq!(bench.fail(a, &tcp((1, 9), ("10.0.0.1", 1), ("10.0.0.1", 2), OPEN)), DropReason::SamePort);
    assert_eq!(bench.fail(PortId(9), &syn()), DropReason::PortGone);
    assert_eq!(bench.fail(PortId(99), &syn()), DropReason::PortGone);
}

#[test]
fn what_is_not_ip_passes_only_where_the_domain_says_so() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let domain = bench.first_domain();
    let forward = Action::Forward { port: b, source_mac: None, destination_mac: None };
    bench.switch.put_rules(domain, [(Stage::ForwardOut, rule("mac", 50, Conditions::to_mac(mac(2)), forward))]).expect("the domain");
    let mut bytes = syn();
    bytes[5] = 2;
    bytes[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(bench.fail(a, &bytes), DropReason::NotIp);
    let spec = vfp::DomainSpec { name: "switch".into(), other_protocols: true, ..Default::default() };
    bench.switch.change_domain(domain, spec).expect("the domain");
    let (egress, left, _) = bench.pass(a, &bytes);
    assert_eq!((egress.port, left.bytes()), (b, Frame::from_bytes(&bytes).bytes()));
    assert!(bench.switch.flows().is_empty(), "nothing is remembered of it");
}
