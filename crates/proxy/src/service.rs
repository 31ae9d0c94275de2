//! What Services ask for: one value for each of their ports and address families.

use std::fmt;
use std::net::IpAddr;

use hcn::load_balancer::ProtocolType;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort as PortSpec, ServiceSpec};

use crate::family::Family;

/// How long a client keeps its backend where a Service does not say.
const AFFINITY_SECONDS: u32 = 10_800;

/// The label by which a Service says that another proxy serves it.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

/// A Service's name and Kubernetes namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    /// Its Kubernetes namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which port of a Service: what EndpointSlices name it by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The Service.
    pub service: ServiceName,
    /// Addresses of which family.
    pub family: Family,
    /// The port's name; empty if it has none.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "{}/{}", self.service, self.protocol),
            name => write!(f, "{}:{name}/{}", self.service, self.protocol),
        }
    }
}

/// The protocols that Services have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Reads a protocol; none is TCP.
    pub fn read(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("" | "TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some("SCTP") => Some(Self::Sctp),
            Some(_) => None,
        }
    }

    /// As load balancers have it.
    pub fn of_load_balancer(self) -> ProtocolType {
        match self {
            Self::Tcp => ProtocolType::Tcp,
            Self::Udp => ProtocolType::Udp,
            Self::Sctp => ProtocolType::Sctp,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// A port of a Service in one address family.
#[derive(Clone, Debug, PartialEq)]
pub struct ServicePort {
    /// Which one it is.
    pub key: PortKey,
    /// The Service's own address.
    pub cluster_ip: IpAddr,
    /// The port at virtual addresses.
    pub port: u16,
    /// The port at the node's own addresses.
    pub node_port: Option<u16>,
    /// Addresses that the user leads here.
    pub external_ips: Vec<IpAddr>,
    /// Addresses of a load balancer that hands packets on as they are.
    pub ingress_ips: Vec<IpAddr>,
    /// Who may use the latter; everybody if empty.
    pub source_ranges: Vec<IpNet>,
    /// How many seconds a client keeps its backend.
    pub affinity_seconds: Option<u32>,
    /// Whether clients in the cluster get backends on their own node only.
    pub internal_local: bool,
    /// Whether clients from outside get backends on the node they came to only.
    pub external_local: bool,
    /// Where this node says whether it has backends.
    pub health_check_port: Option<u16>,
    /// Whether the virtual address itself reaches the pod.
    pub preserve_destination: bool,
}

impl ServicePort {
    /// Whether it has addresses for clients outside of the cluster.
    pub fn is_external(&self) -> bool {
        self.node_port.is_some() || !self.external_ips.is_empty() || !self.ingress_ips.is_empty()
    }
}

/// What a Service asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenService {
    /// Its ports; none if it is none of ours.
    pub ports: Vec<ServicePort>,
    /// What it says wrongly, and is left out.
    pub complaints: Vec<(ServiceName, String)>,
}

impl SeenService {
    /// Reads a Service.
    pub fn read(service: &Service) -> Self {
        let mut complaints = Vec::new();
        let mut ports = read_ports(service, &mut |name, cause| complaints.push((name.clone(), cause)));
        ports.shrink_to_fit();
        Self { ports, complaints }
    }
}

fn read_ports(service: &Service, complain: &mut dyn FnMut(&ServiceName, String)) -> Vec<ServicePort> {
    let metadata = &service.metadata;
    let name = ServiceName { namespace: metadata.namespace.clone().unwrap_or_default(), name: metadata.name.clone().unwrap_or_default() };
    let has_other_proxy = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(OTHER_PROXY));
    let Some(spec) = service.spec.as_ref().filter(|_| !has_other_proxy) else { return Vec::new() };
    let is_headless = matches!(spec.cluster_ip.as_deref(), None | Some("" | "None"));
    if is_headless || spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for cluster_ip in cluster_ips(spec, &name, complain) {
        found.extend(ports.iter().filter_map(|port| read_port(service, spec, port, &name, cluster_ip, complain)));
    }
    found
}

/// The Service's own addresses, at most one a family.
fn cluster_ips(spec: &ServiceSpec, name: &ServiceName, complain: &mut dyn FnMut(&ServiceName, String)) -> Vec<IpAddr> {
    let listed = spec.cluster_ips.as_deref().filter(|all| !all.is_empty());
    let texts = listed.unwrap_or(spec.cluster_ip.as_slice());
    let mut found: Vec<IpAddr> = Vec::new();
    for text in texts {
        match text.parse::<IpAddr>() {
            Ok(address) if found.iter().all(|known| Family::of(*known) != Family::of(address)) => found.push(address),
            Ok(address) => complain(name, format!("clusterIPs: {address} is a second address of its family and is not served")),
            Err(_) => complain(name, format!("clusterIPs: {text:?} is no address")),
        }
    }
    found
}

fn read_port(
    service: &Service,
    spec: &ServiceSpec,
    port: &PortSpec,
    name: &ServiceName,
    cluster_ip: IpAddr,
    complain: &mut dyn FnMut(&ServiceName, String),
) -> Option<ServicePort> {
    let family = Family::of(cluster_ip);
    let Some(protocol) = Protocol::read(port.protocol.as_deref()) else {
        complain(name, format!("ports: {:?} is no protocol of a Service", port.protocol.as_deref().unwrap_or_default()));
        return None;
    };
    let Some(number) = u16::try_from(port.port).ok().filter(|number| *number > 0) else {
        complain(name, format!("ports: {} is no port from 1 to 65535", port.port));
        return None;
    };
    let mut addresses = |field: &str, texts: &mut dyn Iterator<Item = &str>| -> Vec<IpAddr> {
        let read = texts.filter_map(|text| {
            let address = text.trim().parse::<IpAddr>();
            if address.is_err() {
                complain(name, format!("{field}: {text:?} is no address"));
            }
            address.ok()
        });
        let mut found: Vec<IpAddr> = read.filter(|address| Family::of(*address) == family).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let external_ips = addresses("externalIPs", &mut spec.external_ips.iter().flatten().map(String::as_str));
    let ingress_ips = addresses("status.loadBalancer.ingress", &mut ingress(service));
    let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
    let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
    let takes_external = matches!(kind, "NodePort" | "LoadBalancer") || !external_ips.is_empty();
    let external_local = takes_external && is_local(&spec.external_traffic_policy);
    let positive = |port: Option<i32>| port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    Some(ServicePort {
        key: PortKey { service: name.clone(), family, name: port.name.clone().unwrap_or_default(), protocol },
        cluster_ip,
        port: number,
        node_port: positive(port.node_port).filter(|_| matches!(kind, "NodePort" | "LoadBalancer")),
        external_ips,
        ingress_ips,
        source_ranges: source_ranges(spec, name, family, complain),
        affinity_seconds: affinity_seconds(spec),
        internal_local: is_local(&spec.internal_traffic_policy),
        external_local,
        health_check_port: positive(spec.health_check_node_port).filter(|_| kind == "LoadBalancer" && external_local),
        preserve_destination: annotation(service, "preserve-destination").is_some_and(|value| value == "true"),
    })
}

/// The addresses of load balancers that do not end connections themselves.
fn ingress(service: &Service) -> impl Iterator<Item = &str> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let all = status.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    all.filter(|ingress| ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP")).filter_map(|ingress| ingress.ip.as_deref())
}

/// Who may use a load balancer's address. One prefix of everything is no restriction.
fn source_ranges(spec: &ServiceSpec, name: &ServiceName, family: Family, complain: &mut dyn FnMut(&ServiceName, String)) -> Vec<IpNet> {
    let mut found = Vec::new();
    for text in spec.load_balancer_source_ranges.iter().flatten() {
        match text.trim().parse::<IpNet>() {
            Ok(range) if Family::of(range.addr()) == family => found.push(range.trunc()),
            Ok(_) => {}
            Err(_) => complain(name, format!("loadBalancerSourceRanges: {text:?} is no prefix; write one such as 10.0.0.0/8")),
        }
    }
    match found.iter().any(|range| range.prefix_len() == 0) {
        true => Vec::new(),
        false => found,
    }
}

fn affinity_seconds(spec: &ServiceSpec) -> Option<u32> {
    let client = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = client.and_then(|client| client.timeout_seconds).and_then(|seconds| u32::try_from(seconds).ok());
    (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| seconds.unwrap_or(AFFINITY_SECONDS))
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
