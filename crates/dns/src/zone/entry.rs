//! The names of one Service: its own, and those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hickory_proto::rr::rdata::{CNAME, SRV};
use hickory_proto::rr::{Name, RData};

use super::labels::dashed;
use crate::facts::{Backend, Kind, Port, ServiceFacts, SliceFacts};

/// What the weights of the records of a port add up to.
const WEIGHTS: usize = 100;

/// A Service with its backends.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name it stands for.
    alias: Option<Name>,
    /// The addresses at its own name.
    addresses: Vec<IpAddr>,
    /// The addresses of the hosts below it.
    hosts: BTreeMap<Box<str>, BTreeSet<IpAddr>>,
    /// Where its ports are, by protocol and name, as they are written in names.
    ports: BTreeMap<Box<str>, BTreeMap<Box<str>, BTreeSet<Place>>>,
}

/// Where a port is: at a host below the Service, or at the Service itself.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    host: Option<Box<str>>,
    port: u16,
}

impl Entry {
    /// None if there is nothing to tell: the specification wants a headless Service without ready backends to have no name.
    pub(super) fn new(service: &ServiceFacts, slices: &[SliceFacts]) -> Option<Self> {
        let mut entry = Self { alias: None, addresses: Vec::new(), hosts: BTreeMap::new(), ports: BTreeMap::new() };
        match &service.kind {
            Kind::External(name) => entry.alias = Some(name.clone()),
            Kind::Virtual(addresses) => {
                entry.addresses.clone_from(addresses);
                service.ports.iter().for_each(|port| entry.add_port(port, None));
            }
            Kind::Headless => {
                slices.iter().for_each(|slice| entry.add_slice(slice, service.publishes_not_ready));
                let all: BTreeSet<IpAddr> = entry.hosts.values().flatten().copied().collect();
                entry.addresses = all.into_iter().collect();
                if entry.addresses.is_empty() {
                    return None;
                }
            }
        }
        Some(entry)
    }

    fn add_slice(&mut self, slice: &SliceFacts, with_not_ready: bool) {
        for backend in slice.backends.iter().filter(|backend| backend.is_ready || with_not_ready) {
            for (host, address) in hosts(backend) {
                slice.ports.iter().for_each(|port| self.add_port(port, Some(&host)));
                self.hosts.entry(host).or_default().insert(address);
            }
        }
    }

    fn add_port(&mut self, port: &Port, host: Option<&str>) {
        let protocol = self.ports.entry(format!("_{}", port.protocol).into()).or_default();
        let places = protocol.entry(format!("_{}", port.name).into()).or_default();
        places.insert(Place { host: host.map(Into::into), port: port.number });
    }

    /// The addresses that have names here, and which ones. `own` is the Service's name.
    pub(super) fn reverse(&self, own: &Name) -> Vec<(IpAddr, Name)> {
        if self.hosts.is_empty() {
            return self.addresses.iter().map(|address| (*address, own.clone())).collect();
        }
        let below = |host: &str| own.prepend_label(host.as_bytes()).ok();
        self.hosts.iter().filter_map(|(host, all)| Some((below(host)?, all))).flat_map(|(name, all)| pairs(all, &name)).collect()
    }

    /// Everything that is said about a name below the Service, or about its own; none if there is no such name. The label next to the
    /// Service comes first.
    pub(super) fn records(&self, below: &[&str], own: &Name) -> Option<Vec<RData>> {
        match below {
            [] => Some(self.alias.iter().cloned().map(|name| RData::CNAME(CNAME(name))).chain(address_records(&self.addresses)).collect()),
            [label] => match self.hosts.get(*label) {
                Some(addresses) => Some(address_records(addresses).collect()),
                None => self.ports.contains_key(*label).then(Vec::new),
            },
            [protocol, port] => Some(place_records(self.ports.get(*protocol)?.get(*port)?, own)),
            _ => None,
        }
    }
}

fn pairs(addresses: &BTreeSet<IpAddr>, name: &Name) -> Vec<(IpAddr, Name)> {
    addresses.iter().map(|address| (*address, name.clone())).collect()
}

/// The hosts that a backend is, by the name it was given or by its addresses.
fn hosts(backend: &Backend) -> impl Iterator<Item = (Box<str>, IpAddr)> {
    let name = |address: IpAddr| backend.hostname.as_ref().map_or_else(|| dashed(address).into(), |name| name.to_ascii_lowercase().into());
    backend.addresses.iter().map(move |address| (name(*address), *address))
}

/// Records for addresses.
pub(super) fn address_records<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> impl Iterator<Item = RData> {
    addresses.into_iter().map(|address| match address {
        IpAddr::V4(address) => RData::A((*address).into()),
        IpAddr::V6(address) => RData::AAAA((*address).into()),
    })
}

fn place_records(places: &BTreeSet<Place>, own: &Name) -> Vec<RData> {
    let weight = u16::try_from((WEIGHTS / places.len().max(1)).max(1)).unwrap_or(1);
    let target = |place: &Place| match &place.host {
        Some(host) => own.prepend_label(host.as_bytes()).ok(),
        None => Some(own.clone()),
    };
    places.iter().filter_map(|place| Some(RData::SRV(SRV::new(0, weight, place.port, target(place)?)))).collect()
}
