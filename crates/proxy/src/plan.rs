//! The difference between what should be and what is, as steps.
//!
//! Three rounds, so that a connection finds its way at every moment: endpoints that are missing come first, then load balancers change, and
//! endpoints that nobody uses go last.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use hcn::Guid;
use hcn::base::SchemaVersion;
use hcn::endpoint::{Endpoint, EndpointFlags, IpConfiguration};
use hcn::load_balancer::{DistributionType, LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping};
use hcn::policy::Policy;
use hcn::policy::network::{NetworkPolicyType, ProviderAddressSettings};
use serde_json::{Value, json};

use crate::desired::{Abilities, Balancer, Desired, Frontend, Role, Setting, Targets, most_common};
use crate::family::Family;
use crate::identity::{balancer_id, endpoint_id};
use crate::observed::{Observed, SeenEndpoint, SeenNetwork};
use crate::service::PortKey;
use crate::shape::Shape;

/// What is to be done with a load balancer.
#[derive(Clone, Debug)]
pub enum BalancerStep {
    /// Make it; the others are in its place and go first.
    Create {
        /// It.
        document: Box<LoadBalancer>,
        /// Load balancers at the same frontend.
        instead_of: Vec<Guid>,
    },
    /// Change it in place.
    Modify(Box<LoadBalancer>),
    /// Take it away.
    Delete(Guid),
}

/// A step, what it is about, and who wanted it.
#[derive(Clone, Debug)]
pub struct Step {
    /// What to do.
    pub step: BalancerStep,
    /// The role of the load balancer.
    pub role: Role,
    /// Addresses of which family.
    pub family: Family,
    /// The port of a Service that wants it; none if nobody does any more.
    pub cause: Option<PortKey>,
    /// Where clients connect to.
    pub frontend: Frontend,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    /// What should be.
    pub desired: &'a Desired,
    /// What is.
    pub observed: &'a Observed,
    /// The network that pods are on.
    pub network: &'a SeenNetwork,
    /// How the node is set.
    pub setting: &'a Setting,
    /// What HNS can do.
    pub abilities: Abilities,
}

impl Planner<'_> {
    /// The endpoints that are missing: backends on other nodes, and on an overlay those that stand for virtual addresses.
    pub fn missing_endpoints(&self) -> Vec<Endpoint> {
        let absent = self.remote_addresses().into_iter().filter(|address| self.usable(*address).is_none());
        let mut missing: BTreeMap<Guid, Endpoint> =
            absent.map(|address| self.remote_endpoint(address)).map(|endpoint| (endpoint.id, endpoint)).collect();
        let stand_ins = self.stand_ins().into_iter().filter(|(address, _)| self.observed.at(*address).next().is_none());
        missing.extend(stand_ins.map(|(_, endpoint)| (endpoint.id, endpoint)));
        missing.retain(|id, _| !self.observed.endpoints.contains_key(id));
        missing.into_values().collect()
    }

    /// The addresses on other nodes that load balancers send clients to. Pods on this node have endpoints of their own, or none yet.
    fn remote_addresses(&self) -> BTreeSet<IpAddr> {
        let all = self.desired.balancers.values().flat_map(|balancer| all_targets(balancer).map(|(address, _)| *address));
        all.filter(|address| !self.is_here(*address)).collect()
    }

    fn is_here(&self, address: IpAddr) -> bool {
        self.desired.local_addresses.contains(&address) || self.setting.node_addresses.contains(&address)
    }

    /// The endpoint that stands for an address: one on this node before one elsewhere, and of those elsewhere one that is said to be
    /// where the address is.
    fn usable(&self, address: IpAddr) -> Option<Guid> {
        let provider = self.provider(address);
        let fits = |endpoint: &SeenEndpoint| endpoint.is_remote && (!self.network.is_overlay || endpoint.provider == provider);
        let here = self.observed.at(address).find(|(_, endpoint)| !endpoint.is_remote && endpoint.is_usable).map(|(id, _)| id);
        let elsewhere = || self.observed.at(address).filter(|(_, endpoint)| fits(endpoint)).map(|(id, _)| id).min();
        match self.is_here(address) {
            // A pod that has just come here is not where it was before.
            true => here,
            false => here.or_else(elsewhere),
        }
    }

    /// The node that an address is on, on an overlay.
    fn provider(&self, address: IpAddr) -> Option<IpAddr> {
        if !self.network.is_overlay {
            return None;
        }
        let route = self.network.remote_subnets.iter().rev().find(|(subnet, provider)| subnet.contains(&address) || *provider == address);
        route.map(|(_, provider)| *provider).or_else(|| self.node_address(Family::of(address)))
    }

    fn node_address(&self, family: Family) -> Option<IpAddr> {
        self.setting.node_addresses.iter().copied().find(|address| Family::of(*address) == family)
    }

    fn remote_endpoint(&self, address: IpAddr) -> Endpoint {
        endpoint(self.network.id, address, mac_of(address), EndpointFlags::REMOTE, self.provider(address))
    }

    /// On an overlay, endpoints that stand for addresses which no pod has: the source address of translated connections, and the
    /// Services' own.
    fn stand_ins(&self) -> Vec<(IpAddr, Endpoint)> {
        if !self.network.is_overlay {
            return Vec::new();
        }
        let mac = || self.setting.host_mac.clone().unwrap_or_default();
        // Two endpoints of a node cannot have one hardware address, so that the first source address alone has the adapter's.
        let mac_of_source = |index: usize, vip: IpAddr| if index == 0 { mac() } else { mac_of(vip) };
        let source = |(index, vip): (usize, &IpAddr)| {
            (*vip, endpoint(self.network.id, *vip, mac_of_source(index, *vip), EndpointFlags::default(), None))
        };
        let cluster_ip = |vip: IpAddr| {
            let provider = self.node_address(Family::of(vip));
            (vip, endpoint(self.network.id, vip, mac(), EndpointFlags::REMOTE, provider))
        };
        let of_services = self.desired.balancers.iter().filter(|(_, balancer)| balancer.role == Role::ClusterIp);
        let vips: BTreeSet<IpAddr> = of_services.filter_map(|(frontend, _)| frontend.vip).collect();
        self.setting.source_vips.iter().enumerate().map(source).chain(vips.into_iter().map(cluster_ip)).collect()
    }

    /// The steps that make the load balancers what they should be.
    pub fn balancer_steps(&self) -> Vec<Step> {
        let mut at_frontend: HashMap<Frontend, Vec<Guid>> = HashMap::new();
        for (id, seen) in &self.observed.balancers {
            for frontend in &seen.frontends {
                at_frontend.entry(*frontend).or_default().push(*id);
            }
        }
        let mut steps = self.surplus();
        for (frontend, balancer) in &self.desired.balancers {
            let step = |step| Step {
                step,
                role: balancer.role,
                family: frontend.family,
                cause: Some(balancer.cause.clone()),
                frontend: *frontend,
            };
            let Some(document) = self.document(frontend, balancer) else {
                // None of its backends can be reached any more.
                let id = balancer_id(frontend);
                steps.extend(self.observed.balancers.contains_key(&id).then(|| step(BalancerStep::Delete(id))));
                continue;
            };
            let mut others: Vec<Guid> = at_frontend.remove(frontend).unwrap_or_default();
            others.retain(|id| *id != document.id);
            others.sort_unstable();
            let change = match self.observed.balancers.get(&document.id) {
                Some(seen) if seen.shape == Shape::of(&document) => continue,
                Some(_) if self.abilities.modify => BalancerStep::Modify(Box::new(document)),
                Some(_) => BalancerStep::Create { instead_of: [others, vec![document.id]].concat(), document: Box::new(document) },
                None => BalancerStep::Create { document: Box::new(document), instead_of: others },
            };
            steps.push(step(change));
        }
        steps
    }

    /// Load balancers of ours that nobody wants any more.
    fn surplus(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (id, seen) in self.observed.balancers.iter().filter(|(_, seen)| seen.is_ours) {
            if let Some(frontend) = seen.frontends.first().filter(|frontend| !self.desired.balancers.contains_key(frontend)) {
                let role = if frontend.vip.is_none() { Role::NodePort } else { Role::ClusterIp };
                steps.push(Step { step: BalancerStep::Delete(*id), role, family: frontend.family, cause: None, frontend: *frontend });
            }
        }
        steps.sort_by_key(|step| step.frontend);
        steps
    }

    /// The document of a load balancer; none while none of the endpoints it needs is there.
    fn document(&self, frontend: &Frontend, balancer: &Balancer) -> Option<LoadBalancer> {
        let resolve = |targets: &[(IpAddr, u16)]| -> Vec<(Guid, IpAddr, u16)> {
            let found = targets.iter().filter_map(|(address, port)| Some((self.usable(*address)?, *address, *port)));
            found.collect()
        };
        let (endpoints, internal_port) = match &balancer.targets {
            Targets::Backends(targets) => (resolve(targets), most_common(targets)),
            Targets::NodeItself => (self.node_endpoint(frontend)?, None),
        };
        let inside = balancer.inside.as_deref().map(resolve);
        if endpoints.is_empty() && !self.abilities.extras {
            return None;
        }
        let internal_port = internal_port.or_else(|| most_common(balancer.inside.as_deref()?)).unwrap_or(frontend.port);
        let mut flags = LoadBalancerFlags::default();
        if balancer.dsr {
            flags = flags.with(LoadBalancerFlags::DSR);
        }
        if frontend.family == Family::V6 {
            flags = flags.with(LoadBalancerFlags::IPV6);
        }
        let params = if self.abilities.extras { extras(balancer, internal_port, &endpoints, inside.as_deref()) } else { Value::Null };
        let ids: BTreeSet<Guid> = endpoints.iter().chain(inside.iter().flatten()).map(|(id, ..)| *id).collect();
        Some(LoadBalancer {
            id: balancer_id(frontend),
            owner: "kube-proxy".to_owned(),
            name: format!("{} {}", balancer.cause, balancer.role.label()),
            network: self.network.id,
            endpoints: ids.into_iter().collect(),
            source_vip: self.source_vip(frontend.family, &endpoints).map(|vip| vip.to_string()).unwrap_or_default(),
            frontend_vips: frontend.vip.iter().map(IpAddr::to_string).collect(),
            port_mappings: vec![LoadBalancerPortMapping {
                protocol: frontend.protocol.of_load_balancer(),
                internal_port,
                external_port: frontend.port,
                distribution_type: if balancer.affinity_seconds.is_some() { DistributionType::SourceIp } else { DistributionType::None },
                flags: balancer.flags,
                ..LoadBalancerPortMapping::default()
            }],
            flags,
            additional_params: serde_json::from_value(params).unwrap_or_default(),
            schema_version: SchemaVersion::v2(),
            ..LoadBalancer::default()
        })
    }

    /// The node's own endpoint, by its name.
    fn node_endpoint(&self, frontend: &Frontend) -> Option<Vec<(Guid, IpAddr, u16)>> {
        let name = self.setting.health_check_endpoint.as_deref()?;
        let (id, endpoint) = self.observed.endpoints.iter().find(|(_, endpoint)| endpoint.name.eq_ignore_ascii_case(name))?;
        let address = endpoint.addresses.iter().copied().find(|address| Family::of(*address) == frontend.family)?;
        Some(vec![(*id, address, frontend.port)])
    }

    /// The source address of translated connections. Backends that are nodes answer the node, since they know nothing of the overlay.
    fn source_vip(&self, family: Family, endpoints: &[(Guid, IpAddr, u16)]) -> Option<IpAddr> {
        if !self.network.is_overlay {
            return None;
        }
        let is_node = |address: IpAddr| self.network.remote_subnets.iter().any(|(_, provider)| *provider == address);
        let node = self.node_address(family);
        match endpoints.iter().any(|(_, address, _)| is_node(*address)) {
            true => node,
            false => self.setting.source_vips.iter().copied().find(|vip| Family::of(*vip) == family).or(node),
        }
    }

    /// Endpoints of ours that no load balancer uses any more.
    pub fn surplus_endpoints(&self) -> Vec<Guid> {
        let mut used: HashSet<Guid> = self.observed.balancers.values().flat_map(|seen| seen.shape.endpoints.iter().copied()).collect();
        used.extend(self.stand_ins().into_iter().map(|(_, endpoint)| endpoint.id));
        // What could not be done this time is needed next time.
        used.extend(self.remote_addresses().into_iter().filter_map(|address| self.usable(address)));
        let mut surplus: Vec<Guid> =
            self.observed.endpoints.iter().filter(|(id, endpoint)| endpoint.is_ours && !used.contains(id)).map(|(id, _)| *id).collect();
        surplus.sort_unstable();
        surplus
    }
}

fn all_targets(balancer: &Balancer) -> impl Iterator<Item = &(IpAddr, u16)> {
    let targets = match &balancer.targets {
        Targets::Backends(targets) => targets.as_slice(),
        Targets::NodeItself => &[],
    };
    targets.iter().chain(balancer.inside.iter().flatten())
}

fn endpoint(network: Guid, address: IpAddr, mac_address: String, flags: EndpointFlags, provider: Option<IpAddr>) -> Endpoint {
    Endpoint {
        id: endpoint_id(network, address, provider),
        name: format!("kube-proxy {address}"),
        network,
        ip_configurations: vec![IpConfiguration { ip_address: address.to_string(), ..IpConfiguration::default() }],
        mac_address,
        flags,
        policies: provider.map(provider_policy).into_iter().collect(),
        schema_version: SchemaVersion::v2(),
        ..Endpoint::default()
    }
}

fn provider_policy(provider: IpAddr) -> Policy {
    let settings = ProviderAddressSettings { provider_address: provider.to_string(), ..ProviderAddressSettings::default() };
    Policy::new(&NetworkPolicyType::ProviderAddress, &settings)
}

/// The hardware address of an endpoint elsewhere, which nobody ever sees.
fn mac_of(address: IpAddr) -> String {
    let [a, b, c, d] = match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            [octets[15], octets[14], octets[13], octets[12]]
        }
    };
    format!("02-11-{a:02x}-{b:02x}-{c:02x}-{d:02x}")
}

/// The fields of `AdditionalParams` that we write, where HNS says that it knows them.
pub const EXTRAS: [&str; 5] = ["AffinityTimeoutSeconds", "BackendPorts", "InsideEndpoints", "OutsideEndpoints", "SourceRanges"];

/// What Windows has no field for.
fn extras(balancer: &Balancer, port: u16, endpoints: &[(Guid, IpAddr, u16)], inside: Option<&[(Guid, IpAddr, u16)]>) -> Value {
    let mut params = serde_json::Map::new();
    if let Some(seconds) = balancer.affinity_seconds {
        params.insert("AffinityTimeoutSeconds".into(), seconds.into());
    }
    let all = endpoints.iter().chain(inside.into_iter().flatten());
    let ports: BTreeMap<String, u16> = all.filter(|(_, _, own)| *own != port).map(|(id, _, own)| (id.to_string(), *own)).collect();
    if !ports.is_empty() {
        params.insert("BackendPorts".into(), json!(ports));
    }
    if !balancer.source_ranges.is_empty() {
        params.insert("SourceRanges".into(), balancer.source_ranges.iter().map(|range| Value::from(range.to_string())).collect());
    }
    if let Some(inside) = inside {
        let ids = |endpoints: &[(Guid, IpAddr, u16)]| endpoints.iter().map(|(id, ..)| id.to_string()).collect::<BTreeSet<String>>();
        params.insert("InsideEndpoints".into(), json!(ids(inside)));
        params.insert("OutsideEndpoints".into(), json!(ids(endpoints)));
    }
    match params.is_empty() {
        true => Value::Null,
        false => Value::Object(params),
    }
}
