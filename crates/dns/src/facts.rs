//! What names need of a Service, an EndpointSlice and a pod.
//!
//! What is wrong in an object is left out, and the rest of it has its names: the API server checks objects, and a name less is better than
//! no names.

use std::net::IpAddr;

use hickory_proto::rr::Name;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// The label by which an EndpointSlice says whose it is.
const SERVICE: &str = "kubernetes.io/service-name";

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFacts {
    /// Its Kubernetes namespace.
    pub namespace: Box<str>,
    /// Its name there.
    pub name: Box<str>,
    /// What its name stands for.
    pub kind: Kind,
    /// Whether backends that are not ready have names too.
    pub publishes_not_ready: bool,
    /// Its named ports.
    pub ports: Vec<Port>,
}

/// What the name of a Service stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its own addresses.
    Virtual(Vec<IpAddr>),
    /// The addresses of its backends.
    Headless,
    /// Another name.
    External(Name),
}

/// A port that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: Box<str>,
    /// Its protocol, in small letters.
    pub protocol: Box<str>,
    /// Its number.
    pub number: u16,
}

impl ServiceFacts {
    /// Reads a Service; none if it stands for nothing.
    pub fn read(service: &Service) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        Some(Self {
            namespace: service.metadata.namespace.as_deref()?.into(),
            name: service.metadata.name.as_deref()?.into(),
            kind: kind(spec)?,
            publishes_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            ports: spec.ports.iter().flatten().filter_map(|it| port(it.name.as_deref(), it.protocol.as_deref(), it.port)).collect(),
        })
    }
}

fn kind(spec: &ServiceSpec) -> Option<Kind> {
    if spec.type_.as_deref() == Some("ExternalName") {
        let mut name = Name::from_ascii(spec.external_name.as_deref()?).ok()?;
        name.set_fqdn(true);
        return Some(Kind::External(name));
    }
    if spec.cluster_ip.as_deref() == Some("None") {
        return Some(Kind::Headless);
    }
    let several = spec.cluster_ips.as_deref().unwrap_or_default();
    let addresses = several.iter().map(String::as_str).chain(spec.cluster_ip.as_deref().filter(|_| several.is_empty()));
    Some(Kind::Virtual(addresses.filter_map(|address| address.parse().ok()).collect()))
}

/// Ports without a name have no records.
fn port(name: Option<&str>, protocol: Option<&str>, number: i32) -> Option<Port> {
    let name = name.filter(|name| !name.is_empty())?;
    let protocol = protocol.unwrap_or("TCP").to_ascii_lowercase();
    Some(Port { name: name.into(), protocol: protocol.into(), number: number.try_into().ok()? })
}

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceFacts {
    /// Its Kubernetes namespace.
    pub namespace: Box<str>,
    /// The Service it belongs to.
    pub service: Box<str>,
    /// The backends in it.
    pub backends: Vec<Backend>,
    /// The named ports of each.
    pub ports: Vec<Port>,
}

/// What a Service points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The name it was given.
    pub hostname: Option<Box<str>>,
    /// Whether it is ready.
    pub is_ready: bool,
}

impl SliceFacts {
    /// Reads an EndpointSlice; none if it belongs to no Service.
    pub fn read(slice: &EndpointSlice) -> Option<Self> {
        let service = slice.metadata.labels.as_ref()?.get(SERVICE)?;
        Some(Self {
            namespace: slice.metadata.namespace.as_deref()?.into(),
            service: service.as_str().into(),
            backends: slice.endpoints.iter().flatten().map(Backend::read).collect(),
            ports: slice
                .ports
                .iter()
                .flatten()
                .filter_map(|it| port(it.name.as_deref(), it.protocol.as_deref(), it.port.unwrap_or_default()))
                .collect(),
        })
    }
}

impl Backend {
    fn read(endpoint: &Endpoint) -> Self {
        Self {
            addresses: endpoint.addresses.iter().filter_map(|address| address.parse().ok()).collect(),
            hostname: endpoint.hostname.as_deref().filter(|name| !name.is_empty()).map(Into::into),
            // Unknown is to be taken for ready.
            is_ready: endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true),
        }
    }
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its Kubernetes namespace.
    pub namespace: Box<str>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl PodFacts {
    /// Reads a pod; none if it has no addresses, or none that are still its own.
    pub fn read(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let several = status.pod_ips.iter().flatten().map(|it| it.ip.as_str());
        let addresses: Vec<IpAddr> = several.chain(status.pod_ip.as_deref()).filter_map(|address| address.parse().ok()).collect();
        (!addresses.is_empty()).then_some(Self { namespace: pod.metadata.namespace.as_deref()?.into(), addresses })
    }
}
