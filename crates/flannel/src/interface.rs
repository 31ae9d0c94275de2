//! The interface that leads to other nodes, and this node's address on it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use regex::Regex;

use crate::annotation;

/// An interface of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as HNS and the system know it.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The largest packet it takes.
    pub mtu: u32,
    /// Its addresses, the preferred one of a family first.
    pub addresses: Vec<IpNet>,
    /// Whether the default route goes by it.
    pub is_default: bool,
}

impl Interface {
    /// Its first address of a family, unless that is only for the link.
    pub fn address_like(&self, v4: bool) -> Option<IpAddr> {
        let is_local = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        self.addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == v4 && !is_local(address))
    }
}

/// Which interface people want.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names or addresses; the first that is there counts.
    pub names: Vec<String>,
    /// Expressions that an address or else a name matches; the first that does counts.
    pub expressions: Vec<Regex>,
    /// The address that it is to lead to, if none of the others is there.
    pub reach: Option<IpAddr>,
    /// The addresses to be published instead of the interface's, at most one of a family.
    pub public: Vec<IpAddr>,
}

impl Choice {
    /// Whether anybody has chosen.
    pub fn is_made(&self) -> bool {
        !self.names.is_empty() || !self.expressions.is_empty() || self.reach.is_some()
    }

    /// The interface. An address that the Node is annotated with comes before everything else.
    pub fn interface<'a>(
        &self,
        all: &'a [Interface],
        annotations: &BTreeMap<String, String>,
        source_towards: &dyn Fn(IpAddr) -> Result<Option<IpAddr>, String>,
    ) -> Result<&'a Interface, String> {
        let has = |interface: &&Interface, text: &str| interface.addresses.iter().any(|address| address.addr().to_string() == text);
        for key in [annotation::NODE_PUBLIC_IP, annotation::NODE_PUBLIC_IPV6] {
            if let Some(text) = annotations.get(key) {
                return all
                    .iter()
                    .find(|interface| has(interface, text))
                    .ok_or_else(|| missing(&format!("the address {text} of the annotation {key}"), all));
            }
        }
        for wanted in &self.names {
            if let Some(found) = all.iter().find(|interface| interface.name == *wanted || has(interface, wanted)) {
                return Ok(found);
            }
        }
        for expression in &self.expressions {
            let by_address =
                |interface: &&Interface| interface.addresses.iter().any(|address| expression.is_match(&address.addr().to_string()));
            let by_name = |interface: &&Interface| expression.is_match(&interface.name);
            if let Some(found) = all.iter().find(by_address).or_else(|| all.iter().find(by_name)) {
                return Ok(found);
            }
        }
        if let Some(there) = self.reach {
            let source = source_towards(there)?.map(|source| source.to_string());
            let found = source.and_then(|source| all.iter().find(|interface| has(interface, &source)));
            return found.ok_or_else(|| missing(&format!("a route to {there}, as --iface-can-reach asks for"), all));
        }
        if self.is_made() {
            return Err(missing("what --iface and --iface-regex ask for", all));
        }
        all.iter().find(|interface| interface.is_default).ok_or_else(|| missing("a default route", all))
    }

    /// The addresses under which this node is known, of the families that are needed.
    pub fn addresses(
        &self,
        interface: &Interface,
        annotations: &BTreeMap<String, String>,
        families: [bool; 2],
    ) -> Result<Vec<IpAddr>, String> {
        let mut addresses = Vec::new();
        for (needed, v4, key) in [(families[0], true, annotation::NODE_PUBLIC_IP), (families[1], false, annotation::NODE_PUBLIC_IPV6)] {
            let annotated = annotations.get(key).and_then(|text| text.parse::<IpAddr>().ok()).filter(|address| address.is_ipv4() == v4);
            let address = annotated.or_else(|| crate::address_like(&self.public, v4)).or_else(|| interface.address_like(v4));
            match address {
                Some(address) if needed => addresses.push(address),
                None if needed => {
                    let (family, flag) = if v4 { ("IPv4", "--public-ip") } else { ("IPv6", "--public-ipv6") };
                    return Err(format!(
                        "the interface {} has no {family} address; give it one, choose another with --iface, or set {flag}",
                        interface.name
                    ));
                }
                _ => {}
            }
        }
        Ok(addresses)
    }
}

fn missing(what: &str, all: &[Interface]) -> String {
    let describe = |interface: &Interface| {
        let addresses: Vec<String> = interface.addresses.iter().map(|address| address.addr().to_string()).collect();
        format!("{} ({})", interface.name, addresses.join(" "))
    };
    let there: Vec<String> = all.iter().map(describe).collect();
    format!("no interface has {what}; name one with --iface: {}", there.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> Vec<Interface> {
        let interface = |name: &str, addresses: &[&str], is_default| Interface {
            name: name.to_owned(),
            index: 1,
            mtu: 1500,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            is_default,
        };
        vec![interface("eth0", &["10.0.0.5/24", "fe80::5/64", "fd00::5/64"], false), interface("eth1", &["192.168.0.5/24"], true)]
    }

    #[test]
    fn the_first_wish_that_is_there_counts() {
        let table = [
            (&[][..], &[][..], None, Ok("eth1")),
            (&["eth0"], &[], None, Ok("eth0")),
            (&["eth7", "10.0.0.5"], &[], None, Ok("eth0")),
            (&[], &["^10\\."], None, Ok("eth0")),
            (&[], &["eth[1-9]"], None, Ok("eth1")),
            (&["eth0"], &[], Some("192.168.0.5"), Ok("eth1")),
            (
                &["eth7"],
                &["wlan"],
                None,
                Err("no interface has what --iface and --iface-regex ask for; name one with --iface: eth0 (10.0.0.5"),
            ),
            (&["eth0"], &[], Some("203.0.113.1"), Err("no interface has the address 203.0.113.1 of the annotation node-public-ip")),
        ];
        for (names, expressions, annotation, expected) in table {
            let choice = Choice {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                expressions: expressions.iter().map(|text| Regex::new(text).unwrap()).collect(),
                ..Choice::default()
            };
            let annotations = annotation.map(|text: &str| (annotation::NODE_PUBLIC_IP.to_owned(), text.to_owned())).into_iter().collect();
            match (choice.interface(&interfaces(), &annotations, &|_| Ok(None)), expected) {
                (Ok(found), Ok(name)) => assert_eq!(found.name, name),
                (Err(error), Err(text)) => assert!(error.starts_with(text), "{error}"),
                (found, _) => panic!("{names:?} {expressions:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_interface_that_leads_somewhere_counts_last() {
        let (there, none) = ("203.0.113.9".parse().unwrap(), BTreeMap::new());
        let choice = Choice { reach: Some(there), ..Choice::default() };
        let named = Choice { names: vec!["eth1".to_owned()], ..choice.clone() };
        let by = |choice: &Choice, source: Result<Option<&str>, String>| {
            let source = source.map(|source| source.map(|text| text.parse().unwrap()));
            let towards = |asked: IpAddr| if asked == there { source.clone() } else { panic!("nobody asked for {asked}") };
            choice.interface(&interfaces(), &none, &towards).map(|found| found.name.clone())
        };
        assert_eq!(by(&choice, Ok(Some("10.0.0.5"))), Ok("eth0".to_owned()), "not that of the default route");
        assert_eq!(by(&named, Ok(Some("10.0.0.5"))), Ok("eth1".to_owned()), "a name comes first");
        for source in [None, Some("127.0.0.1")] {
            let error = by(&choice, Ok(source)).unwrap_err();
            assert!(error.starts_with("no interface has a route to 203.0.113.9, as --iface-can-reach asks for; name one"), "{error}");
        }
        assert_eq!(by(&choice, Err("not here".to_owned())), Err("not here".to_owned()));
    }

    #[test]
    fn addresses_are_the_interfaces_unless_somebody_says_otherwise() {
        let (all, none) = (interfaces(), BTreeMap::new());
        let text = |addresses: Result<Vec<IpAddr>, String>| addresses.map(|all| all.iter().map(IpAddr::to_string).collect::<Vec<_>>());
        let choice = Choice::default();
        assert_eq!(text(choice.addresses(&all[0], &none, [true, true])).unwrap(), ["10.0.0.5", "fd00::5"], "not the link's own");
        assert!(choice.addresses(&all[1], &none, [true, true]).unwrap_err().starts_with("the interface eth1 has no IPv6 address"));
        let public = Choice { public: vec!["203.0.113.7".parse().unwrap()], ..Choice::default() };
        assert_eq!(text(public.addresses(&all[1], &none, [true, false])).unwrap(), ["203.0.113.7"]);
        let annotations = BTreeMap::from([(annotation::NODE_PUBLIC_IP.to_owned(), "192.168.0.9".to_owned())]);
        assert_eq!(text(public.addresses(&all[1], &annotations, [true, false])).unwrap(), ["192.168.0.9"]);
    }
}
