//! Connections of a namespace that a proxy in it takes, whichever way they go.
//!
//! What programs of the namespace send out by a NIC is led to the proxy at the loopback address; what arrives by the NIC is led to
//! the proxy at the address it came for. Either way the proxy asks the kernel where the connection was meant to go (`SO_ORIGINAL_DST`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::batch::Family;
use super::error::NftError;
use super::expression::{Side, Steps};
use super::table::{Chain, Table};

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;

/// Where other programs expect destinations to be changed (`dstnat`).
const DESTINATION_PRIORITY: i32 = -100;

const FAMILIES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Which way connections go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// To the namespace.
    Inward,
    /// From programs in the namespace.
    Outward,
}

/// Connections that are left alone, whatever other interceptions say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exempt {
    /// Those with whom.
    pub remote: Vec<IpNet>,
    /// Those to which transport ports.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Those of programs of this user, where they are sent from here.
    pub user: Option<u32>,
}

/// Connections of one course that a proxy takes. An empty list means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interception {
    /// Which way they go.
    pub course: Course,
    /// The transport port of the proxy.
    pub proxy: u16,
    /// The IP protocols: 6 for TCP, 17 for UDP.
    pub protocols: Vec<u8>,
    /// The addresses on this side.
    pub local: Vec<IpNet>,
    /// The addresses on the other side.
    pub remote: Vec<IpNet>,
    /// The transport ports on this side.
    pub local_ports: Vec<RangeInclusive<u16>>,
    /// The transport ports on the other side.
    pub remote_ports: Vec<RangeInclusive<u16>>,
    /// What is left alone all the same.
    pub exempt: Exempt,
}

/// The interceptions at a NIC, for as long as this value lives. Connections that were led to a proxy stay so until they end.
#[derive(Debug)]
pub struct Interceptions {
    table: Table,
    nic: String,
}

impl Interceptions {
    /// Begins to lead connections by a NIC of the calling thread's namespace to proxies. The first interception that is about a
    /// connection decides.
    pub fn install(nic: &str, list: &[Interception]) -> Result<Self, NftError> {
        let chain = |name, hook| Chain { name, kind: "nat", hook, priority: DESTINATION_PRIORITY, device: None, drops: false };
        let chains = vec![chain("prerouting", PREROUTING), chain("output", OUTPUT)];
        let table = Table::create(Family::Inet, format!("transom-proxy-{nic}"), chains, &compiled(nic, list))?;
        Ok(Self { table, nic: nic.to_owned() })
    }

    /// Leads others from now on, at one instant.
    pub fn update(&mut self, list: &[Interception]) -> Result<(), NftError> {
        self.table.replace(&compiled(&self.nic, list))
    }
}

/// The rules of each chain, in the chains' order.
fn compiled(nic: &str, list: &[Interception]) -> [Vec<Steps>; 2] {
    [Course::Inward, Course::Outward].map(|course| {
        let of_course = list.iter().filter(|interception| interception.course == course);
        of_course.flat_map(|interception| interception.rules(nic)).collect()
    })
}

impl Interception {
    fn rules(&self, nic: &str) -> Vec<Steps> {
        let mut rules = self.exemptions(nic);
        for family in FAMILIES {
            rules.extend(self.matching(nic, family).into_iter().map(|steps| match self.course {
                Course::Outward => steps.redirect(family, self.proxy),
                Course::Inward => steps.redirect_port(family, self.proxy),
            }));
        }
        rules
    }

    fn exemptions(&self, nic: &str) -> Vec<Steps> {
        let user = self.exempt.user.filter(|_| self.course == Course::Outward).map(|user| self.at(nic).sent_by(user));
        let (_, far) = self.sides();
        let address = |prefix: &IpNet| self.at(nic).family_of(prefix.addr()).within(far, *prefix);
        let port = |range| self.protocols.iter().map(move |protocol| (*protocol, range));
        let ports = self.exempt.ports.iter().flat_map(port);
        let ports = ports.map(|(protocol, range)| self.at(nic).transport(protocol).port_within(Side::Destination, range));
        user.into_iter().chain(self.exempt.remote.iter().map(address)).chain(ports).map(Steps::accept).collect()
    }

    /// A list of steps for each combination of what the lists name.
    fn matching(&self, nic: &str, family: IpAddr) -> Vec<Steps> {
        let (near, far) = self.sides();
        let mut all: Vec<Steps> = self.protocols.iter().map(|protocol| self.at(nic).family_of(family).transport(*protocol)).collect();
        for (side, prefixes) in [(near, &self.local), (far, &self.remote)] {
            let alike: Vec<IpNet> = prefixes.iter().copied().filter(|prefix| prefix.addr().is_ipv4() == family.is_ipv4()).collect();
            match (prefixes.is_empty(), alike.is_empty()) {
                (true, _) => {}
                // Of a family that is not named nothing is meant.
                (false, true) => return Vec::new(),
                (false, false) => all = every(&all, &alike, |steps, prefix| steps.within(side, *prefix)),
            }
        }
        for (side, ranges) in [(near, &self.local_ports), (far, &self.remote_ports)] {
            if !ranges.is_empty() {
                all = every(&all, ranges, |steps, range| steps.port_within(side, range));
            }
        }
        all
    }

    /// Packets that take this course by the NIC.
    fn at(&self, nic: &str) -> Steps {
        match self.course {
            Course::Outward => Steps::new().leaves_by(nic),
            Course::Inward => Steps::new().arrived_by(nic),
        }
    }

    /// Where a packet has its addresses and ports of this side and of the other.
    const fn sides(&self) -> (Side, Side) {
        match self.course {
            Course::Outward => (Side::Source, Side::Destination),
            Course::Inward => (Side::Destination, Side::Source),
        }
    }
}

fn every<T>(all: &[Steps], alternatives: &[T], step: impl Fn(Steps, &T) -> Steps) -> Vec<Steps> {
    all.iter().flat_map(|steps| alternatives.iter().map(|alternative| step(steps.clone(), alternative))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outward() -> Interception {
        Interception {
            course: Course::Outward,
            proxy: 15_001,
            protocols: vec![6],
            local: Vec::new(),
            remote: Vec::new(),
            local_ports: Vec::new(),
            remote_ports: Vec::new(),
            exempt: Exempt::default(),
        }
    }

    fn counts(interception: &Interception) -> [usize; 2] {
        compiled("eth0", std::slice::from_ref(interception)).map(|rules| rules.len())
    }

    #[test]
    fn one_rule_for_each_family_and_combination() {
        assert_eq!(counts(&outward()), [0, 2]);
        assert_eq!(counts(&Interception { course: Course::Inward, ..outward() }), [2, 0]);
        let ports = vec![80..=80, 8080..=8090];
        assert_eq!(counts(&Interception { remote_ports: ports.clone(), protocols: vec![6, 17], ..outward() }), [0, 8]);
        let remote: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "10.1.0.0/16".parse().unwrap()];
        assert_eq!(counts(&Interception { remote: remote.clone(), remote_ports: ports, ..outward() }), [0, 4]);
        let local = vec!["fd00::/8".parse().unwrap()];
        assert_eq!(counts(&Interception { remote, local, ..outward() }), [0, 0]);
    }

    #[test]
    fn exemptions_come_first_and_users_are_of_programs_here() {
        let exempt = Exempt { remote: vec!["10.0.0.0/8".parse().unwrap()], ports: vec![22..=22], user: Some(1337) };
        assert_eq!(counts(&Interception { exempt: exempt.clone(), ..outward() }), [0, 5]);
        assert_eq!(counts(&Interception { exempt, course: Course::Inward, protocols: vec![6, 17], ..outward() }), [7, 0]);
    }
}
