//! Access lists against a model: the rules walked one by one, in order of priority.

use std::net::IpAddr;

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::access::node;
use crate::documents::policy;

/// A packet between `a`, `b` or `c`, as one of its ends sees it.
#[derive(Clone, Copy, Debug)]
struct Packet {
    out: bool,
    v4: bool,
    /// The last byte of the addresses: 2 is `a`.
    local: u8,
    remote: u8,
    protocol: u8,
    local_port: u16,
    remote_port: u16,
}

impl Packet {
    fn addresses(&self) -> [IpAddr; 2] {
        let of = |last: u8| match self.v4 {
            true => IpAddr::from([10, 1, 0, last]),
            false => format!("fd10::{last}").parse().unwrap(),
        };
        [of(self.local), of(self.remote)]
    }

    /// The same packet as its other end sees it.
    fn mirrored(self) -> Self {
        let Self { out, local, remote, local_port, remote_port, .. } = self;
        Self { out: !out, local: remote, remote: local, local_port: remote_port, remote_port: local_port, ..self }
    }

    fn has_ports(&self) -> bool {
        matches!(self.protocol, 6 | 17 | 132)
    }

    /// What the sender sends, and who that is.
    fn text(&self) -> (&'static str, String) {
        let name = |last: u8| ["a", "b", "c"][usize::from(last) - 2];
        let sent = if self.out { *self } else { self.mirrored() };
        let [from, to] = sent.addresses();
        let end = |address: IpAddr, port: u16| match self.has_ports() {
            true => std::net::SocketAddr::new(address, port).to_string(),
            false => address.to_string(),
        };
        let kind = match self.protocol {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            132 => "sctp".to_owned(),
            other => format!("raw{other}"),
        };
        let (from, to) = (end(from, sent.local_port), end(to, sent.remote_port));
        (name(sent.local), format!("{kind} {from} > {to} @{}", name(sent.remote)))
    }
}

const SETS: [(&str, &str); 3] = [("bees", "10.1.0.3,fd10::3"), ("none", ""), ("four", "10.0.0.0/8")];

fn packet() -> impl Strategy<Value = Packet> {
    let ports = || select(vec![79u16, 80, 443, 8080]);
    (any::<bool>(), any::<bool>(), select(vec![3u8, 4]), select(vec![6u8, 17, 132, 252]), ports(), ports()).prop_map(
        |(out, v4, remote, protocol, local_port, remote_port)| Packet { out, v4, local: 2, remote, protocol, local_port, remote_port },
    )
}

fn fields() -> impl Strategy<Value = Value> {
    let list = |choices: &'static [&'static str]| subsequence(choices, 0..=2).prop_map(|chosen| chosen.join(","));
    let addresses = || list(&["10.1.0.3", "10.1.0.0/24", "fd10::/64", "fd10::4", "bees", "none", "four", "10.1.0.2"]);
    let ports = || prop_oneof![2 => Just(String::new()), 1 => list(&["80", "79-80", "443-8080"])];
    let priority = select(vec![0u16, 100, 100, 200, 300]);
    (list(&["6", "17", "252"]), addresses(), addresses(), ports(), ports(), priority).prop_map(|(protocols, local, remote, local_ports, remote_ports, priority)| {
        json!({"Protocols": protocols, "LocalAddresses": local, "RemoteAddresses": remote, "LocalPorts": local_ports, "RemotePorts": remote_ports, "Priority": priority})
    })
}

fn acl() -> impl Strategy<Value = Value> {
    let action = select(vec!["Allow", "Block", "Pass"]);
    (fields(), action, select(vec!["In", "Out"]), select(vec!["Host", "Switch"])).prop_map(|(mut fields, action, direction, rule_type)| {
        fields["Action"] = json!(action);
        fields["Direction"] = json!(direction);
        fields["RuleType"] = json!(rule_type);
        fields
    })
}

fn tier_rule() -> impl Strategy<Value = Value> {
    (fields(), select(vec!["Allow", "Block", "Pass"])).prop_map(|(mut fields, action)| {
        fields["TierAclRuleAction"] = json!(action);
        fields
    })
}

fn tiers() -> impl Strategy<Value = Vec<Value>> {
    let tier = (select(vec!["In", "Out"]), vec(tier_rule(), 0..4));
    vec(tier, 0..3).prop_map(|tiers| {
        let number = |(index, (direction, rules)): (usize, (&str, Vec<Value>))| json!({"Direction": direction, "Order": 100 - index, "TierAclRules": rules});
        tiers.into_iter().enumerate().map(number).collect()
    })
}

/// Whether a list has a value, by asking each element.
fn has(list: &Value, holds: impl Fn(&str) -> bool) -> bool {
    let list = list.as_str().unwrap_or_default();
    list.is_empty() || list.split(',').any(holds)
}

fn has_address(list: &Value, address: IpAddr) -> bool {
    let within = |element: &str| match element.parse::<IpNet>() {
        Ok(prefix) => prefix.contains(&address),
        Err(_) => element.parse::<IpAddr>().is_ok_and(|one| one == address),
    };
    has(list, |element| match SETS.iter().find(|(id, _)| *id == element) {
        Some((_, values)) => values.split(',').any(within),
        None => within(element),
    })
}

fn has_port(list: &Value, packet: &Packet, port: u16) -> bool {
    let within = |element: &str| {
        let (first, last) = element.split_once('-').unwrap_or((element, element));
        (first.parse().unwrap()..=last.parse::<u16>().unwrap()).contains(&port)
    };
    list == "" || (packet.has_ports() && has(list, within))
}

fn matches(rule: &Value, packet: &Packet) -> bool {
    let [local, remote] = packet.addresses();
    has(&rule["Protocols"], |number| number == packet.protocol.to_string())
        && has_address(&rule["LocalAddresses"], local)
        && has_address(&rule["RemoteAddresses"], remote)
        && has_port(&rule["LocalPorts"], packet, packet.local_port)
        && has_port(&rule["RemotePorts"], packet, packet.remote_port)
}

/// What a list of rules says about a packet.
fn walk<'a>(rules: impl Iterator<Item = &'a Value>, action: &str, packet: &Packet) -> Option<String> {
    let mut found: Vec<(u64, usize, String)> = Vec::new();
    for rule in rules.filter(|rule| matches(rule, packet)) {
        let priority = match rule["Priority"].as_u64() {
            Some(0) | None => u64::MAX,
            Some(priority) => priority,
        };
        let action = rule[action].as_str().unwrap().to_owned();
        let strictness = ["Block", "Pass", "Allow"].iter().position(|known| *known == action).unwrap();
        found.push((priority, strictness, action));
    }
    found.into_iter().min().map(|(_, _, action)| action)
}

/// Whether a packet passes, by the book.
fn passes(network: &[Value], tiers: &[Value], acls: &[Value], packet: &Packet) -> bool {
    let direction = if packet.out { "Out" } else { "In" };
    let of = |rules: &[Value], kind: &str| -> Vec<Value> {
        rules.iter().filter(|rule| rule["Direction"] == direction && (kind.is_empty() || rule["RuleType"] == kind)).cloned().collect()
    };
    let blocks = |rules: &[Value], kind: &str| walk(of(rules, kind).iter(), "Action", packet).as_deref() == Some("Block");
    if ["Host", "Switch"].iter().any(|kind| blocks(network, kind)) || blocks(acls, "Host") {
        return false;
    }
    let mut tiers = of(tiers, "");
    tiers.sort_by_key(|tier| tier["Order"].as_u64());
    for tier in &tiers {
        match walk(tier["TierAclRules"].as_array().unwrap().iter(), "TierAclRuleAction", packet).as_deref() {
            Some("Allow") => return true,
            Some("Block") => return false,
            _ => {}
        }
    }
    !blocks(acls, "Switch")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_switch_does_what_the_model_says(
        network in vec(acl(), 0..4), tiers in tiers(), acls in vec(acl(), 0..12), packets in vec(packet(), 1..12),
    ) {
        let set = |(id, values): (&str, &str)| policy("SetPolicy", json!({"Id": id, "Name": id, "PolicyType": "IPSET", "Values": values}));
        let of_network: Vec<Value> = SETS.into_iter().map(set).chain(network.iter().map(|acl| policy("NetworkACL", acl.clone()))).collect();
        let of_a: Vec<Value> = acls.iter().map(|acl| policy("ACL", acl.clone())).chain(tiers.iter().map(|tier| policy("TierAcl", tier.clone()))).collect();
        for packet in packets {
            // The network's rules hold at the other end as well. Each packet has a switch of its own, so that none is an answer.
            let expected = passes(&network, &tiers, &acls, &packet) && passes(&network, &[], &[], &packet.mirrored());
            let (sender, text) = packet.text();
            let end = node(json!(of_network), json!(of_a)).send(sender, &text);
            let right = if expected { !end.starts_with("drop") } else { end.starts_with("drop acl-block") };
            prop_assert!(right, "{text}: {end}, and the model says {expected}");
        }
    }
}
