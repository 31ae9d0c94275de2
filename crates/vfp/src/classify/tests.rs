//! The classifier against a scan over all rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::number::protocol;
use wire::{FlowId, Ip, MacAddress};

use super::{Classifier, Rank, Subject};
use crate::action::Action;
use crate::condition::{AddressMatch, Conditions, PortRange};
use crate::rule::{Place, Registry, Rule, RuleSpec};

fn contains(prefix: &IpNet, address: Ip) -> bool {
    prefix.contains(&std::net::IpAddr::from(address))
}

/// Whether a rule matches, said as plainly as it can be.
fn matches(conditions: &Conditions, subject: &Subject) -> bool {
    let address = |list: &[AddressMatch], address: Ip| {
        list.is_empty() || list.iter().any(|one| one.prefixes().iter().any(|prefix| contains(prefix, address)))
    };
    let port = |list: &[PortRange], port: u16| list.is_empty() || list.iter().any(|range| range.contains(&port));
    let mac = |list: &[MacAddress], mac: MacAddress| list.is_empty() || list.contains(&mac);
    (conditions.protocols.is_empty() || conditions.protocols.contains(&subject.id.protocol))
        && address(&conditions.sources, subject.id.source)
        && address(&conditions.destinations, subject.id.destination)
        && port(&conditions.source_ports, subject.id.source_port)
        && port(&conditions.destination_ports, subject.id.destination_port)
        && mac(&conditions.source_macs, subject.source_mac)
        && mac(&conditions.destination_macs, subject.destination_mac)
        && (conditions.vni.is_none() || conditions.vni == subject.vni)
        && (conditions.ether_types.is_empty() || conditions.ether_types.contains(&subject.ether_type))
}

/// The rules in order of precedence, as a scan needs them.
#[derive(Default)]
struct Scan {
    rules: BTreeMap<Rank, Arc<Rule>>,
    age: u64,
}

impl Scan {
    fn insert(&mut self, rule: Arc<Rule>) {
        self.age += 1;
        self.rules.insert((rule.spec.priority, self.age), rule);
    }

    /// All that match, first things first.
    fn all(&self, subject: &Subject) -> Vec<Rank> {
        self.rules.iter().filter(|(_, rule)| matches(&rule.spec.conditions, subject)).map(|(rank, _)| *rank).collect()
    }
}

/// All that match, by finding one after the other.
fn all(classifier: &Classifier, subject: &Subject) -> Vec<Rank> {
    let mut found = Vec::new();
    while let Some(next) = classifier.find(subject, found.last().copied()) {
        found.push(next.rank);
    }
    found
}

/// Addresses near the edges of the prefixes below.
fn address() -> impl Strategy<Value = Ip> {
    let texts = ["0.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.1.1", "10.255.255.255", "255.255.255.255", "::", "fd00::1", "fd00::2", "ffff::"];
    (0..texts.len()).prop_map(move |at| Ip::from(texts[at].parse::<std::net::IpAddr>().expect("an address")))
}

fn prefix() -> impl Strategy<Value = IpNet> {
    let texts = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.0.0.0/24",
        "10.0.0.1/32",
        "10.0.0.2/31",
        "255.255.255.255/32",
        "::/0",
        "::/1",
        "::/64",
        "::/95",
        "fd00::/16",
        "fd00::1/128",
        "ffff::/16",
    ];
    (0..texts.len()).prop_map(move |at| texts[at].parse().expect("a prefix"))
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(80), Just(81), Just(65_535)]
}

fn range() -> impl Strategy<Value = PortRange> {
    // Also the wrong way round, which is empty.
    (port(), port()).prop_map(|(first, last)| PortRange::new(first, last))
}

fn mac() -> impl Strategy<Value = MacAddress> {
    (0..3u8).prop_map(|last| MacAddress([2, 0, 0, 0, 0, last]))
}

fn address_match() -> impl Strategy<Value = AddressMatch> {
    prop_oneof![
        3 => prefix().prop_map(AddressMatch::Prefix),
        1 => vec(prefix(), 0..3).prop_map(|set| AddressMatch::Set(set.into())),
    ]
}

/// Conditions of any shape, and of each simple shape often enough.
fn conditions() -> impl Strategy<Value = Conditions> {
    let protocols = || prop_oneof![Just(protocol::TCP), Just(protocol::UDP)];
    let general = (
        (vec(protocols(), 0..2), vec(address_match(), 0..2), vec(address_match(), 0..3)),
        (vec(range(), 0..2), vec(range(), 0..2), vec(mac(), 0..2), vec(mac(), 0..2)),
        (prop::option::weighted(0.2, 1..3u32), vec(prop_oneof![Just(0x800), Just(0x86dd)], 0..2)),
    )
        .prop_map(
            |((protocols, sources, destinations), (source_ports, destination_ports, source_macs, destination_macs), (vni, ether_types))| {
                Conditions {
                    protocols,
                    sources,
                    destinations,
                    source_ports,
                    destination_ports,
                    source_macs,
                    destination_macs,
                    vni,
                    ether_types,
                }
            },
        );
    let service = (address(), protocols(), port()).prop_map(|(address, protocol, port)| Conditions {
        protocols: vec![protocol],
        destination_ports: vec![port..=port],
        ..Conditions::to(address)
    });
    prop_oneof![
        3 => general,
        1 => prefix().prop_map(Conditions::to_prefix),
        1 => mac().prop_map(Conditions::to_mac),
        1 => (1..3u32).prop_map(Conditions::of_vni),
        1 => service,
    ]
}

fn subject() -> impl Strategy<Value = Subject> {
    let protocols = prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(protocol::ICMP)];
    let id =
        (address(), address(), port(), port(), protocols).prop_map(|(source, destination, source_port, destination_port, protocol)| {
            FlowId { source, destination, source_port, destination_port, protocol }
        });
    (id, mac(), mac(), prop_oneof![Just(0x800), Just(0x86dd)], prop::option::of(1..3u32))
        .prop_map(|(id, source_mac, destination_mac, ether_type, vni)| Subject { id, source_mac, destination_mac, ether_type, vni })
}

fn spec(number: usize, priority: u16, conditions: Conditions) -> RuleSpec {
    RuleSpec::new(format!("rule {number}"), priority, conditions, Action::Allow)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_finds_what_a_scan_finds(
        rules in vec((0..4u16, conditions(), any::<bool>()), 0..90),
        built in 0..90usize,
        subjects in vec(subject(), 1..12),
    ) {
        let mut registry = Registry::default();
        let rules: Vec<_> = rules
            .into_iter()
            .enumerate()
            .map(|(number, (priority, conditions, stays))| (registry.register(Place::default(), spec(number, priority, conditions)), stays))
            .collect();
        let (first, later) = rules.split_at(built.min(rules.len()));
        let mut classifier = Classifier::build(&first.iter().map(|(rule, _)| rule.clone()).collect::<Vec<_>>());
        let mut scan = Scan::default();
        first.iter().for_each(|(rule, _)| scan.insert(rule.clone()));
        for (rule, _) in later {
            classifier.insert(rule.clone());
            scan.insert(rule.clone());
        }
        for subject in &subjects {
            prop_assert_eq!(all(&classifier, subject), scan.all(subject));
        }
        for (rule, _) in rules.iter().filter(|(_, stays)| !stays) {
            classifier.remove(rule);
            scan.rules.retain(|_, other| other.id != rule.id);
        }
        for subject in &subjects {
            prop_assert_eq!(all(&classifier, subject), scan.all(subject));
        }
    }
}

fn tcp_to(destination: Ip, port: u16) -> Subject {
    let id = FlowId { source: Ip::v4(0x0a00_0001), destination, source_port: 1, destination_port: port, protocol: protocol::TCP };
    Subject { id, ether_type: 0x800, ..Subject::default() }
}

/// Ten thousand services and destinations, and a thousand rules that ask for a source and a range of ports.
#[test]
fn many_rules_are_found_like_few() {
    let mut registry = Registry::default();
    let mut rules = Vec::new();
    for number in 0..10_000u32 {
        let address = Ip::v4(0x0a60_0000 + number / 2);
        let conditions = match number % 2 {
            0 => Conditions { protocols: vec![protocol::TCP], destination_ports: vec![80..=80], ..Conditions::to(address) },
            _ => Conditions::to(address),
        };
        rules.push(registry.register(Place::default(), spec(rules.len(), 10, conditions)));
    }
    for number in 0..1000u16 {
        let source = AddressMatch::Prefix(IpNet::from(std::net::IpAddr::from(Ip::v4(0x0a00_0000 + u32::from(number)))));
        let ports = number * 50..=number * 50 + 49;
        let conditions = Conditions { sources: vec![source], destination_ports: vec![ports], ..Conditions::any() };
        rules.push(registry.register(Place::default(), spec(rules.len(), 5, conditions)));
    }
    let classifier = Classifier::build(&rules);
    let mut scan = Scan::default();
    rules.iter().for_each(|rule| scan.insert(rule.clone()));
    for number in (0..5000).step_by(97) {
        for port in [80, 75, 443, 99] {
            let subject = tcp_to(Ip::v4(0x0a60_0000 + number), port);
            assert_eq!(all(&classifier, &subject), scan.all(&subject));
        }
    }
}

#[test]
fn what_is_taken_out_leaves_nothing_behind() {
    let mut registry = Registry::default();
    let mut classifier = Classifier::default();
    let to = Ip::v4(7);
    let shapes = [
        Conditions::to(to),
        Conditions::to_mac(MacAddress::default()),
        Conditions::of_vni(3),
        Conditions { protocols: vec![protocol::TCP], destination_ports: vec![80..=80], ..Conditions::to(to) },
        Conditions::any(),
    ];
    let rules = shapes.map(|conditions| registry.register(Place::default(), spec(0, 1, conditions)));
    rules.iter().for_each(|rule| classifier.insert(rule.clone()));
    rules.iter().for_each(|rule| classifier.remove(rule));
    assert!(classifier.by_destination.is_empty() && classifier.by_destination_mac.is_empty());
    assert!(classifier.by_vni.is_empty() && classifier.by_service.is_empty());
    assert!(all(&classifier, &tcp_to(to, 80)).is_empty());
}

#[test]
fn an_ipv4_prefix_may_be_written_as_ipv6() {
    let (bits, address) = super::key(&"::ffff:10.0.0.0/104".parse().expect("a prefix"));
    assert_eq!((bits, address), super::key(&"10.0.0.0/8".parse().expect("a prefix")));
}
