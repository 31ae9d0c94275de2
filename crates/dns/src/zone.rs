//! The names of the cluster, by version 1.1.0 of the Kubernetes DNS specification.
//!
//! | name | records |
//! |---|---|
//! | `dns-version.ZONE` | TXT: the version of the specification |
//! | `SERVICE.NS.svc.ZONE` | A and AAAA: the Service's addresses; of a headless Service those of its ready backends; CNAME of an ExternalName |
//! | `_PORT._PROTOCOL.SERVICE.NS.svc.ZONE` | SRV: the Service and its port; of a headless Service each backend and its port |
//! | `HOST.SERVICE.NS.svc.ZONE` | A and AAAA of a backend of a headless Service; HOST is its hostname, or its address with dashes |
//! | `1-2-3-4.NS.pod.ZONE` | A or AAAA: that address, see [`PodNames`] |
//! | `4.3.2.1.in-addr.arpa`, `….ip6.arpa` | PTR: the Service or backend that has the address |
//!
//! A zone is a value: it answers from memory, never waits, and whoever has a newer one swaps it.

mod answer;
mod entry;
mod labels;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use hickory_proto::rr::rdata::{SOA, TXT};
use hickory_proto::rr::{Name, RData, Record};

use crate::facts::{PodFacts, ServiceFacts, SliceFacts};

pub use answer::{Answer, Outcome};
use entry::{Entry, address_records};
use labels::{Labels, dashed_address};

/// The version of the specification.
pub const SPECIFICATION: &str = "1.1.0";

/// How long clients remember that a name is not there, at most. Whoever waits for a Service asks again and again, and should not be the
/// last to hear of it.
const NEGATIVE_TTL: u32 = 5;

/// What can be chosen about a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster domain.
    pub domain: Name,
    /// How many seconds clients may remember an answer.
    pub ttl: u32,
    /// Which pods have names.
    pub pods: PodNames,
}

/// Which pods have names made of their addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodNames {
    /// None.
    Disabled,
    /// Every address in every Kubernetes namespace, whether a pod has it or not. So the specification has it.
    #[default]
    Insecure,
    /// Those of pods that are there.
    Verified,
}

/// What a zone is made of.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The Services.
    pub services: Vec<ServiceFacts>,
    /// Their backends.
    pub slices: Vec<SliceFacts>,
    /// The pods, if only those that are there have names.
    pub pods: Vec<PodFacts>,
}

/// The names of the cluster at one moment.
#[derive(Debug)]
pub struct Zone {
    settings: Settings,
    serial: u32,
    /// Whether it is made of a cluster, or stands in until one was read.
    is_read: bool,
    /// Services by Kubernetes namespace and name.
    services: HashMap<Box<str>, HashMap<Box<str>, Entry>>,
    /// The names that addresses have.
    reverse: HashMap<IpAddr, Vec<Name>>,
    pods: HashSet<(Box<str>, IpAddr)>,
}

impl Zone {
    /// A zone for the time before the cluster was read: it knows which names are the cluster's, and nothing about them.
    pub fn unread(settings: Settings) -> Self {
        Self { is_read: false, ..Self::new(settings, Sources::default(), 0) }
    }

    /// Makes a zone. The serial number tells zones apart; a later one has a larger number.
    pub fn new(settings: Settings, sources: Sources, serial: u32) -> Self {
        let pods = sources.pods.into_iter().flat_map(|pod| pod.addresses.into_iter().map(move |ip| (pod.namespace.clone(), ip)));
        let mut zone = Self { settings, serial, is_read: true, services: HashMap::new(), reverse: HashMap::new(), pods: pods.collect() };
        let mut slices: HashMap<(Box<str>, Box<str>), Vec<SliceFacts>> = HashMap::new();
        for slice in sources.slices {
            slices.entry((slice.namespace.clone(), slice.service.clone())).or_default().push(slice);
        }
        for service in sources.services {
            let key = (service.namespace.clone(), service.name.clone());
            zone.add(&service, slices.get(&key).map_or(&[], Vec::as_slice));
        }
        zone
    }

    fn add(&mut self, service: &ServiceFacts, slices: &[SliceFacts]) {
        let Some((entry, own)) = Entry::new(service, slices).zip(self.name_of(service)) else { return };
        for (address, name) in entry.reverse(&own) {
            self.reverse.entry(address).or_default().push(name);
        }
        self.services.entry(service.namespace.clone()).or_default().insert(service.name.clone(), entry);
    }

    /// The name of a Service in this zone; none if it is longer than names can be.
    fn name_of(&self, service: &ServiceFacts) -> Option<Name> {
        let relative = Name::from_labels([service.name.as_bytes(), service.namespace.as_bytes(), b"svc"]).ok()?;
        relative.append_domain(&self.settings.domain).ok()
    }

    /// Whether it is made of a cluster.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// How many Services have names.
    pub fn len(&self) -> usize {
        self.services.values().map(HashMap::len).sum()
    }

    /// Whether no Service has a name.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    /// Everything that is said about a name; none if there is no such name. Names of others are no names here.
    fn find(&self, name: &Name) -> Option<Vec<RData>> {
        let labels = Labels::below(&self.settings.domain, name)?;
        match labels.last_first().as_slice() {
            [] => Some(vec![RData::SOA(self.authority())]),
            ["dns-version"] => Some(vec![RData::TXT(TXT::new(vec![SPECIFICATION.to_owned()]))]),
            ["svc"] => Some(Vec::new()),
            ["svc", namespace] => self.services.contains_key(*namespace).then(Vec::new),
            ["svc", namespace, service, below @ ..] => {
                let own = name_above(name, below.len());
                self.services.get(*namespace)?.get(*service)?.records(below, &own)
            }
            ["pod", below @ ..] => self.find_pod(below),
            _ => None,
        }
    }

    fn find_pod(&self, below: &[&str]) -> Option<Vec<RData>> {
        if self.settings.pods == PodNames::Disabled {
            return None;
        }
        match below {
            [] | [_] => Some(Vec::new()),
            [namespace, host] => {
                let address = dashed_address(host)?;
                let is_there = || self.pods.contains(&((*namespace).into(), address));
                (self.settings.pods == PodNames::Insecure || is_there()).then(|| address_records(&[address]).collect())
            }
            _ => None,
        }
    }

    /// The record that goes with every answer that something is not there.
    pub fn start_of_authority(&self) -> Record {
        let ttl = self.settings.ttl.min(NEGATIVE_TTL);
        Record::from_rdata(self.settings.domain.clone(), ttl, RData::SOA(self.authority()))
    }

    fn authority(&self) -> SOA {
        let below = |label: &str| Name::from_ascii(label).and_then(|name| name.append_domain(&self.settings.domain));
        let [server, person] = ["ns.dns", "hostmaster"].map(|label| below(label).unwrap_or_else(|_| self.settings.domain.clone()));
        // Nobody copies the zone; these are the times that other servers of clusters say.
        SOA::new(server, person, self.serial, 7200, 1800, 86_400, self.settings.ttl.min(NEGATIVE_TTL))
    }
}

/// A name without the first labels.
fn name_above(name: &Name, labels: usize) -> Name {
    (0..labels).fold(name.clone(), |name, _| name.base_name())
}
