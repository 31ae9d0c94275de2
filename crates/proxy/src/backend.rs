//! What EndpointSlices offer: the backends of every port of a Service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use crate::family::Family;
use crate::programming::Trigger;
use crate::service::{PortKey, Protocol, ServiceName};

/// The label by which a slice says whose it is.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The label of slices that belong to Services without an address.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// A place that a Service's connections can go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Whether it is on this node.
    pub is_local: bool,
    /// Whether it takes new connections.
    pub is_ready: bool,
    /// Whether it answers, be it at its end.
    pub is_serving: bool,
    /// Whether it is about to end.
    pub is_terminating: bool,
    /// The zones it is meant for; none where nobody says.
    pub zones: Option<BTreeSet<String>>,
    /// The nodes it is meant for; none where nobody says.
    pub nodes: Option<BTreeSet<String>>,
}

/// The backends of every port, in the order of their addresses.
pub type Backends = BTreeMap<PortKey, Vec<Backend>>;

/// What an EndpointSlice offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenSlice {
    /// Its backends, by the port they serve; none if it is not for a proxy.
    pub offers: Vec<(PortKey, Vec<Backend>)>,
    /// What it says wrongly, and is left out.
    pub complaints: Vec<(ServiceName, String)>,
    /// When that happened which it was written for, if it says so.
    pub trigger: Option<Trigger>,
}

impl SeenSlice {
    /// Reads a slice as the node of this name.
    pub fn read(slice: &EndpointSlice, node: &str) -> Self {
        let mut seen = Self { trigger: Trigger::read(slice), ..Self::default() };
        let Some((service, family)) = belongs_to(slice) else { return seen };
        for port in slice.ports.iter().flatten() {
            let Some((name, protocol, number)) = read_port(port) else { continue };
            let key = PortKey { service: service.clone(), family, name: name.to_owned(), protocol };
            let mut backends = Vec::with_capacity(slice.endpoints.as_ref().map_or(0, Vec::len));
            for endpoint in slice.endpoints.iter().flatten() {
                match read_endpoint(endpoint, number, node, family) {
                    Ok(backend) => backends.push(backend),
                    Err(cause) => seen.complaints.push((service.clone(), cause)),
                }
            }
            seen.offers.push((key, backends));
        }
        seen.offers.shrink_to_fit();
        seen
    }
}

/// What all slices offer together.
pub fn offered<'a>(slices: impl IntoIterator<Item = &'a SeenSlice>) -> Backends {
    let mut found: BTreeMap<&PortKey, BTreeMap<(IpAddr, u16), &Backend>> = BTreeMap::new();
    for (key, backends) in slices.into_iter().flat_map(|slice| &slice.offers) {
        let known = found.entry(key).or_default();
        backends.iter().for_each(|backend| add(known, backend));
    }
    found.into_iter().map(|(key, backends)| (key.clone(), backends.into_values().cloned().collect())).collect()
}

/// Two slices may have one backend while it moves from one to the other. The one that is not about to end counts.
fn add<'a>(backends: &mut BTreeMap<(IpAddr, u16), &'a Backend>, backend: &'a Backend) {
    let slot = (backend.address, backend.port);
    let is_better = backends.get(&slot).is_none_or(|known| known.is_terminating && !backend.is_terminating);
    if is_better {
        backends.insert(slot, backend);
    }
}

/// The Service of a slice, and the family of its addresses; none if it is not for a proxy.
fn belongs_to(slice: &EndpointSlice) -> Option<(ServiceName, Family)> {
    let labels = slice.metadata.labels.as_ref()?;
    let name = labels.get(SERVICE_NAME).filter(|name| !name.is_empty() && !labels.contains_key(HEADLESS))?;
    let family = match slice.address_type.as_str() {
        "IPv4" => Family::V4,
        "IPv6" => Family::V6,
        _ => return None,
    };
    Some((ServiceName { namespace: slice.metadata.namespace.clone().unwrap_or_default(), name: name.clone() }, family))
}

fn read_port(port: &EndpointPort) -> Option<(&str, Protocol, u16)> {
    let number = port.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
    Some((port.name.as_deref()?, Protocol::read(port.protocol.as_deref())?, number))
}

fn read_endpoint(endpoint: &Endpoint, port: u16, node: &str, family: Family) -> Result<Backend, String> {
    let text = endpoint.addresses.first().map(String::as_str).unwrap_or_default();
    let address: IpAddr = text.parse().map_err(|_| format!("an EndpointSlice has the address {text:?}, which is none"))?;
    if Family::of(address) != family {
        return Err(format!("an EndpointSlice of {family} has the address {address}"));
    }
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        return Err(format!("an EndpointSlice has the address {address}, which no other machine can be reached at"));
    }
    let conditions = endpoint.conditions.as_ref();
    let is = |read: fn(&k8s_openapi::api::discovery::v1::EndpointConditions) -> Option<bool>| conditions.and_then(read);
    let hints = endpoint.hints.as_ref();
    let zones = hints.and_then(|hints| hints.for_zones.as_ref()).map(|zones| zones.iter().map(|zone| zone.name.clone()).collect());
    let nodes = hints.and_then(|hints| hints.for_nodes.as_ref()).map(|nodes| nodes.iter().map(|node| node.name.clone()).collect());
    Ok(Backend {
        address,
        port,
        is_local: endpoint.node_name.as_deref() == Some(node),
        is_ready: is(|conditions| conditions.ready).unwrap_or(true),
        is_serving: is(|conditions| conditions.serving).unwrap_or(true),
        is_terminating: is(|conditions| conditions.terminating).unwrap_or(false),
        zones,
        nodes,
    })
}
