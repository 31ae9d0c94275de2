//! The load balancers that should be, from what the cluster says alone.
//!
//! | load balancer | frontend | backends | DSR |
//! |---|---|---|---|
//! | cluster IP | the Service's address | those for clients inside | if the node is set so |
//! | node port | every address of the node | those for clients outside | with the Local policy |
//! | external IP | the address | those for clients outside | with the Local policy |
//! | ingress | the load balancer's address | those for clients outside, of them those here if the destination is preserved | with the Local policy, or if the destination is preserved |
//! | health check | the load balancer's address, at the port of health checks | the node's own endpoint | never |

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::IpAddr;

use hcn::load_balancer::PortMappingFlags;
use ipnet::IpNet;

use crate::backend::Backend;
use crate::cluster::Cluster;
use crate::family::Family;
use crate::selection::{self, Selection};
use crate::service::{PortKey, Protocol, ServiceName, ServicePort};

/// How this node is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The name of the HNS network that pods are on.
    pub network: String,
    /// The source address of translated connections on overlay networks.
    pub source_vips: Vec<IpAddr>,
    /// Whether clients inside are answered straight by the backend.
    pub dsr: bool,
    /// The node's addresses, at most one a family.
    pub node_addresses: Vec<IpAddr>,
    /// The hardware address of the node's adapter.
    pub host_mac: Option<String>,
    /// The node's own endpoint, which health checks are led to; none leads none.
    pub health_check_endpoint: Option<String>,
    /// Where this node answers health checks that have no port of their own.
    pub health_port: u16,
    /// Whether Services may have external IPs.
    pub external_ips: bool,
    /// The addresses of pods, as far as they are known. Only the kernel has to be told.
    pub pods: Vec<IpNet>,
}

/// What HNS can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Direct server return.
    pub dsr: bool,
    /// Load balancers changed in place.
    pub modify: bool,
    /// What Windows has no field for: target ports by backend, affinity with a timeout, source ranges, load balancers without backends.
    pub extras: bool,
    /// Both families.
    pub dual_stack: bool,
}

/// What a load balancer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The Service's own address.
    ClusterIp,
    /// A port at the node's addresses.
    NodePort,
    /// An address that the user leads here.
    ExternalIp,
    /// An address of a load balancer in front of the cluster.
    Ingress,
    /// Where that one asks whether this node has backends.
    HealthCheck,
}

impl Role {
    /// As metrics have it.
    pub fn label(self) -> &'static str {
        match self {
            Self::ClusterIp => "clusterip",
            Self::NodePort => "nodeport",
            Self::ExternalIp => "externalip",
            Self::Ingress => "ingressip",
            Self::HealthCheck => "healthcheck",
        }
    }
}

/// Where clients connect to. HNS has at most one load balancer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// The virtual address; none is every address of the node.
    pub vip: Option<IpAddr>,
    /// The family, which a frontend without an address has too.
    pub family: Family,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vip {
            Some(vip) => write!(f, "{}/{}", std::net::SocketAddr::new(vip, self.port), self.protocol),
            None => write!(f, "every {} address of the node, port {}/{}", self.family, self.port, self.protocol),
        }
    }
}

/// Where a load balancer sends clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Backends: addresses and ports.
    Backends(Vec<(IpAddr, u16)>),
    /// The node's own endpoint, at the frontend's port.
    NodeItself,
}

/// A load balancer that should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// The port of a Service that wants it.
    pub cause: PortKey,
    /// What it is for.
    pub role: Role,
    /// Where it sends clients.
    pub targets: Targets,
    /// Where it sends clients in the cluster, if elsewhere.
    pub inside: Option<Vec<(IpAddr, u16)>>,
    /// Whether backends answer clients themselves.
    pub dsr: bool,
    /// Flags of its port mapping.
    pub flags: PortMappingFlags,
    /// How many seconds a client keeps its backend.
    pub affinity_seconds: Option<u32>,
    /// Who may use it; everybody if empty.
    pub source_ranges: Vec<IpNet>,
}

/// What load balancers in front of the cluster are told about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The Service.
    pub service: ServiceName,
    /// The port at which it is told.
    pub port: u16,
    /// How many ready backends are on this node.
    pub local_backends: usize,
}

/// Everything that should be.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// The load balancers.
    pub balancers: BTreeMap<Frontend, Balancer>,
    /// The addresses of backends on this node.
    pub local_addresses: HashSet<IpAddr>,
    /// The health checks, one a Service.
    pub health_checks: BTreeMap<u16, HealthCheck>,
    /// What cannot be as it was asked for, and whose it is.
    pub complaints: Vec<(ServiceName, String)>,
    /// How many ports the Local policy leaves without backends here: of the internal policy, and of the external one.
    pub without_local: (usize, usize),
}

/// Computes what should be.
pub fn compute(cluster: &Cluster, setting: &Setting, abilities: Abilities) -> Desired {
    let local = cluster.backends.values().flatten().filter(|backend| backend.is_local).map(|backend| backend.address);
    let mut builder = Builder { desired: Desired { local_addresses: local.collect(), ..Desired::default() }, setting, abilities };
    for port in &cluster.ports {
        let backends = cluster.backends.get(&port.key).map(Vec::as_slice).unwrap_or_default();
        builder.add(port, &selection::select(port, backends, &cluster.here));
    }
    builder.desired
}

struct Builder<'a> {
    desired: Desired,
    setting: &'a Setting,
    abilities: Abilities,
}

impl Builder<'_> {
    fn add(&mut self, port: &ServicePort, selection: &Selection<'_>) {
        self.desired.without_local.0 += usize::from(port.internal_local && selection.internal.is_empty());
        self.desired.without_local.1 += usize::from(port.external_local && selection.external.is_empty());
        self.put(port, Role::ClusterIp, Some(port.cluster_ip), port.port, selection);
        if let Some(node_port) = port.node_port {
            self.put(port, Role::NodePort, None, node_port, selection);
        }
        for vip in port.external_ips.iter().filter(|_| self.setting.external_ips) {
            self.put(port, Role::ExternalIp, Some(*vip), port.port, selection);
        }
        for vip in &port.ingress_ips {
            self.put(port, Role::Ingress, Some(*vip), port.port, selection);
            self.lead_health_checks(port, *vip, selection);
        }
        if let Some(number) = port.health_check_port {
            self.check_health(port, number, selection.local_ready);
        }
    }

    fn put(&mut self, port: &ServicePort, role: Role, vip: Option<IpAddr>, number: u16, selection: &Selection<'_>) {
        let mut chosen: Vec<&Backend> = if role == Role::ClusterIp { selection.internal.clone() } else { selection.external.clone() };
        let preserves = port.preserve_destination && self.abilities.dsr;
        if preserves && matches!(role, Role::NodePort | Role::Ingress) {
            chosen.retain(|backend| backend.is_local);
        }
        let is_outward = role != Role::ClusterIp;
        let inside = (is_outward && chosen != selection.short_cut && self.abilities.extras).then(|| addresses(&selection.short_cut));
        let targets = self.targets(port, &chosen);
        if targets.is_empty() && inside.as_ref().is_none_or(Vec::is_empty) && !self.abilities.extras {
            // Windows has no load balancer that refuses. Without one, packets go wherever the address is routed to.
            return;
        }
        let balancer = Balancer {
            cause: port.key.clone(),
            role,
            targets: Targets::Backends(targets),
            inside,
            dsr: self.is_direct(port, role),
            flags: flags(role, preserves),
            affinity_seconds: port.affinity_seconds,
            source_ranges: if role == Role::Ingress { port.source_ranges.clone() } else { Vec::new() },
        };
        if !balancer.source_ranges.is_empty() && !self.abilities.extras {
            self.complain(port, "loadBalancerSourceRanges: this HNS cannot restrict who uses a load balancer; everybody can");
        }
        self.insert(vip, number, balancer);
    }

    fn insert(&mut self, vip: Option<IpAddr>, number: u16, balancer: Balancer) {
        let frontend = Frontend { vip, family: balancer.cause.family, protocol: balancer.cause.protocol, port: number };
        match self.desired.balancers.get(&frontend) {
            None => _ = self.desired.balancers.insert(frontend, balancer),
            // All ports of a Service share one health check.
            Some(first) if first.role == Role::HealthCheck && first.cause.service == balancer.cause.service => {}
            Some(first) => {
                let cause = format!("{frontend} belongs to {} already; give one of them another address or port", first.cause);
                self.desired.complaints.push((balancer.cause.service, cause));
            }
        }
    }

    /// Addresses and ports of backends. Where HNS knows one port for all, it is the one that most of them have.
    fn targets(&mut self, port: &ServicePort, chosen: &[&Backend]) -> Vec<(IpAddr, u16)> {
        let mut all = addresses(chosen);
        if self.abilities.extras {
            return all;
        }
        let common = most_common(&all);
        let count = all.len();
        all.retain(|(_, number)| Some(*number) == common);
        if all.len() < count {
            let left_out = count - all.len();
            self.complain(
                port,
                &format!("{left_out} backends have another port than most; this HNS knows one port for all, so they get no connections"),
            );
        }
        all
    }

    fn is_direct(&self, port: &ServicePort, role: Role) -> bool {
        self.abilities.dsr
            && match role {
                Role::ClusterIp => self.setting.dsr,
                Role::NodePort | Role::ExternalIp => port.external_local,
                Role::Ingress => port.external_local || port.preserve_destination,
                Role::HealthCheck => false,
            }
    }

    /// Leads the health checks of a load balancer in front of the cluster, which asks at its own address, to the node.
    fn lead_health_checks(&mut self, port: &ServicePort, vip: IpAddr, selection: &Selection<'_>) {
        if self.setting.health_check_endpoint.is_none() || selection.external.is_empty() {
            return;
        }
        let number = port.health_check_port.unwrap_or(self.setting.health_port);
        // Health checks are HTTP, whatever the Service speaks.
        let cause = PortKey { protocol: Protocol::Tcp, ..port.key.clone() };
        let preserved = port.preserve_destination && self.abilities.dsr;
        let flags = if preserved { PortMappingFlags::USE_MUX.with(PortMappingFlags::PRESERVE_DIP) } else { PortMappingFlags::default() };
        let balancer = Balancer {
            cause,
            role: Role::HealthCheck,
            targets: Targets::NodeItself,
            inside: None,
            dsr: false,
            flags,
            affinity_seconds: None,
            source_ranges: Vec::new(),
        };
        self.insert(Some(vip), number, balancer);
    }

    /// A Service has several ports, and one health check: as many backends as its best port has.
    fn check_health(&mut self, port: &ServicePort, number: u16, local_backends: usize) {
        let service = port.key.service.clone();
        let check = self.desired.health_checks.entry(number).or_insert(HealthCheck { service, port: number, local_backends: 0 });
        if check.service == port.key.service {
            check.local_backends = check.local_backends.max(local_backends);
        }
    }

    fn complain(&mut self, port: &ServicePort, cause: &str) {
        self.desired.complaints.push((port.key.service.clone(), cause.to_owned()));
    }
}

/// One port for each address: HNS knows a backend by its endpoint, which it can have once.
fn addresses(backends: &[&Backend]) -> Vec<(IpAddr, u16)> {
    let ports: BTreeMap<IpAddr, u16> = backends.iter().rev().map(|backend| (backend.address, backend.port)).collect();
    ports.into_iter().collect()
}

/// The port that most have; of several, the lowest.
pub(crate) fn most_common(targets: &[(IpAddr, u16)]) -> Option<u16> {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for (_, port) in targets {
        *counts.entry(*port).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(port, count)| (*count, std::cmp::Reverse(*port))).map(|(port, _)| port)
}

fn flags(role: Role, preserves: bool) -> PortMappingFlags {
    let external = PortMappingFlags::VIP_EXTERNAL_IP;
    match role {
        Role::ClusterIp | Role::HealthCheck => PortMappingFlags::default(),
        Role::NodePort => PortMappingFlags::LOCAL_ROUTED_VIP.with(external),
        Role::Ingress if preserves => external.with(PortMappingFlags::USE_MUX).with(PortMappingFlags::PRESERVE_DIP),
        Role::ExternalIp | Role::Ingress => external,
    }
}
