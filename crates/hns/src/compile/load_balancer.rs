//! Load balancers: virtual addresses in front of endpoints.
//!
//! | field | meaning |
//! |---|---|
//! | `FrontendVIPs` | the virtual addresses; none for a node port, which is every address of the node, of one family |
//! | `PortMappings` | protocol, port of the frontend, port of the backends, and which part of a packet decides about the backend |
//! | `HostComputeEndpoints` | the backends |
//! | `SourceVIP` | what the client's address becomes where it cannot be kept |
//! | `Flags` | `DSR`: the backend sees the client's address and answers it; `IPv6`: the family of a node port |
//! | `PortMappings[].Flags` | `PreserveDIP`: the virtual address itself reaches the backend; `ILB`, `LocalRoutedVIP`, `UseMux`, `VipExternalIP`: whom it is for, which changes nothing here |
//! | `AdditionalParams` | of our own: `AffinityTimeoutSeconds`; `BackendPorts`, a port for single backends; `InsideEndpoints` and `OutsideEndpoints`, which of the backends serve pods and the node, and which serve other machines; `SourceRanges`, who may connect |
//!
//! A client's connection is translated at the port of the switch by which it comes in, and its answers there too. So the client's address can be
//! kept wherever answers come back through that port:
//!
//! | from | without DSR | with DSR |
//! |---|---|---|
//! | a pod | becomes `SourceVIP` if there is one | kept |
//! | the node, on an overlay | becomes `SourceVIP` if there is one | the same |
//! | the node, elsewhere | kept | kept |
//! | outside | becomes `SourceVIP`, or the node's address; kept if all backends are on this node and the build can | kept |
//!
//! A client that is its own backend never sees itself: its address becomes `SourceVIP` or the node's.
//!
//! Lands in layer `service`, outwards, in a table that all ports of one origin share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcn::Guid;
use hcn::load_balancer::{DistributionType, LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping, PortMappingFlags};
use hcn::network::Network;
use ipnet::IpNet;
use serde_json::Value;
use vfp::{
    Action, AddressMatch, Backend, Backends, Conditions, Distribution, DomainId, DropReason, Masquerade, PoolId, RuleSpec, Service, Stage,
    UnderlayId,
};
use wire::Ip;

use super::network::Mode;
use super::{CompileError, Placed, Realm, Site, address, priority};
use crate::profile::{Defect, Limit};

/// How long a client keeps its backend where nobody says, as Kubernetes does.
const AFFINITY: Duration = Duration::from_secs(10_800);

/// Where a client's packets come into the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// From an endpoint of the load balancer's network.
    Pod,
    /// From the node itself.
    Node,
    /// From another machine, by the adapter.
    Outside,
}

impl Origin {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Pod, Self::Node, Self::Outside];
}

/// A backend as the switch knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The endpoint.
    pub id: Guid,
    /// Its addresses.
    pub addresses: Vec<Ip>,
    /// Whether it is on this node.
    pub local: bool,
}

/// What load balancers need to know of where they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Surroundings<'a> {
    /// The mode of the network.
    pub mode: Mode,
    /// The prefixes of the network.
    pub prefixes: &'a [IpNet],
    /// The node's addresses.
    pub node: &'a [Ip],
    /// Addresses that stand for the node's own when the node itself asks, see [`super::NODE_ALIASES`].
    pub aliases: &'a [Ip],
    /// Ports for translation.
    pub pool: PoolId,
    /// The network's domain, if it has one of its own.
    pub domain: Option<DomainId>,
    /// What routes on behalf of the node, where backends elsewhere are reached as the node reaches them.
    pub underlay: Option<UnderlayId>,
    /// What the build leaves out.
    pub limits: &'a [Limit],
    /// What it gets wrong.
    pub defects: &'a [Defect],
}

/// What can be said of a load balancer that Windows has no field for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// How long a client keeps its backend.
    pub affinity: Option<Duration>,
    /// Ports of single backends.
    pub ports: BTreeMap<Guid, u16>,
    /// The backends for pods and the node, if not all.
    pub inside: Option<BTreeSet<Guid>>,
    /// The backends for other machines, if not all.
    pub outside: Option<BTreeSet<Guid>>,
    /// Who may connect; everybody if there are none.
    pub sources: Vec<IpNet>,
}

impl Extras {
    /// The fields in `AdditionalParams`.
    pub const FIELDS: [&str; 5] = ["AffinityTimeoutSeconds", "BackendPorts", "InsideEndpoints", "OutsideEndpoints", "SourceRanges"];

    /// Reads them from `AdditionalParams`; whatever else is there is somebody else's.
    pub fn of(balancer: &LoadBalancer) -> Result<Self, CompileError> {
        let params = |name: &str| balancer.additional_params.as_deref().and_then(|params| params.get(name));
        Ok(Self {
            affinity: params("AffinityTimeoutSeconds").map(read_affinity).transpose()?,
            ports: params("BackendPorts").map(read_ports).transpose()?.unwrap_or_default(),
            inside: params("InsideEndpoints").map(|value| read_endpoints("AdditionalParams.InsideEndpoints", value)).transpose()?,
            outside: params("OutsideEndpoints").map(|value| read_endpoints("AdditionalParams.OutsideEndpoints", value)).transpose()?,
            sources: params("SourceRanges").map(read_sources).transpose()?.unwrap_or_default(),
        })
    }

    /// Whether a backend serves clients of an origin.
    fn serves(&self, backend: Guid, origin: Origin) -> bool {
        let chosen = if origin == Origin::Outside { &self.outside } else { &self.inside };
        chosen.as_ref().is_none_or(|chosen| chosen.contains(&backend))
    }
}

fn read_affinity(value: &Value) -> Result<Duration, CompileError> {
    let seconds = value.as_u64().filter(|seconds| (1..=86_400).contains(seconds));
    let seconds = seconds
        .ok_or_else(|| CompileError::new("AdditionalParams.AffinityTimeoutSeconds", format!("{value} is not a number from 1 to 86400")))?;
    Ok(Duration::from_secs(seconds))
}

fn read_ports(value: &Value) -> Result<BTreeMap<Guid, u16>, CompileError> {
    let field = "AdditionalParams.BackendPorts";
    let listed = value.as_object().ok_or_else(|| CompileError::new(field, "write an object of endpoint ids and ports"))?;
    let mut ports = BTreeMap::new();
    for (id, port) in listed {
        let id: Guid = id.parse().map_err(|_| CompileError::new(field, format!("{id:?} is no id of an endpoint")))?;
        let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        ports.insert(id, port.ok_or_else(|| CompileError::new(field, format!("the port of {id} is not a number from 1 to 65535")))?);
    }
    Ok(ports)
}

fn read_endpoints(field: &'static str, value: &Value) -> Result<BTreeSet<Guid>, CompileError> {
    let listed = value.as_array().ok_or_else(|| CompileError::new(field, "write a list of endpoint ids"))?;
    let read = |id: &Value| {
        id.as_str().and_then(|id| id.parse().ok()).ok_or_else(|| CompileError::new(field, format!("{id} is no id of an endpoint")))
    };
    listed.iter().map(read).collect()
}

fn read_sources(value: &Value) -> Result<Vec<IpNet>, CompileError> {
    let field = "AdditionalParams.SourceRanges";
    let listed = value.as_array().ok_or_else(|| CompileError::new(field, "write a list of prefixes"))?;
    let read = |range: &Value| {
        let range = range.as_str().and_then(|range| range.parse::<IpNet>().ok());
        range.ok_or_else(|| CompileError::new(field, "write prefixes such as 10.0.0.0/8")).map(|range| range.trunc())
    };
    listed.iter().map(read).collect()
}

/// The rules of a load balancer for clients of one origin.
pub fn rules(
    balancer: &LoadBalancer,
    backends: &[Place],
    origin: Origin,
    around: &Surroundings<'_>,
) -> Result<Vec<RuleSpec>, CompileError> {
    if is_left_out(balancer, origin, around) {
        return Ok(Vec::new());
    }
    let extras = Extras::of(balancer)?;
    let source = source_vip(balancer)?;
    let mut rules: Vec<RuleSpec> = parted_pods(balancer, origin, around).into_iter().collect();
    for vip in frontends(balancer, origin, around)? {
        for mapping in &balancer.port_mappings {
            let backends = candidates(mapping, backends, vip, &extras, origin);
            let service = Service {
                distribution: distribution(mapping),
                affinity: affinity(mapping, &extras, around),
                keep_destination: mapping.flags.has(PortMappingFlags::PRESERVE_DIP),
                masquerade: masquerade(balancer, &backends, origin, vip, source, around),
                domain: around.domain.filter(|_| origin == Origin::Outside),
                underlay: around.underlay.filter(|_| is_routed(origin, around.mode)),
                backends: Backends::new(backends.iter().map(|(backend, _)| *backend).collect()),
            };
            rules.extend(guarded(rule(balancer, vip, mapping, service)?, &extras.sources));
        }
    }
    Ok(rules)
}

/// Whether the switch routes to backends on behalf of the node. What pods send says the way on, and what the node sends by a tunnel goes to the
/// fabric anyway.
fn is_routed(origin: Origin, mode: Mode) -> bool {
    match origin {
        Origin::Pod => false,
        Origin::Node => mode != Mode::L2Tunnel,
        Origin::Outside => true,
    }
}

/// A rule that holds for some clients only; the others are dropped, as if the address were not there.
fn guarded(mut rule: RuleSpec, sources: &[IpNet]) -> Vec<RuleSpec> {
    if sources.is_empty() {
        return vec![rule];
    }
    let mut others = rule.clone();
    others.name = format!("{} others", rule.name);
    others.priority = priority::DEFAULT;
    others.action = Action::Block(DropReason::AclBlock);
    rule.conditions.sources = vec![AddressMatch::Set(sources.to_vec().into())];
    vec![rule, others]
}

/// How people know a load balancer.
pub fn label(balancer: &LoadBalancer) -> String {
    if balancer.name.is_empty() { balancer.id.to_string() } else { balancer.name.clone() }
}

fn rule(balancer: &LoadBalancer, vip: Ip, mapping: &LoadBalancerPortMapping, service: Service) -> Result<RuleSpec, CompileError> {
    let number = mapping.protocol.number().and_then(|number| u8::try_from(number).ok());
    let protocol = number.ok_or_else(|| CompileError::new("Protocol", format!("{} is no protocol of IP", mapping.protocol)))?;
    let conditions = Conditions {
        protocols: vec![protocol],
        destinations: vec![AddressMatch::host(vip)],
        destination_ports: vec![mapping.external_port..=mapping.external_port],
        ..Conditions::default()
    };
    // The id besides: several load balancers may have one name.
    let at = std::net::SocketAddr::new(IpAddr::from(vip), mapping.external_port);
    let name = format!("{} {} {} {at}", label(balancer), balancer.id, mapping.protocol);
    Ok(RuleSpec::new(name, priority::ENDPOINT, conditions, Action::Redirect(Arc::new(service))))
}

/// What a Windows build does not do for this origin, or does wrong.
fn is_left_out(balancer: &LoadBalancer, origin: Origin, around: &Surroundings<'_>) -> bool {
    let is_node_port = balancer.frontend_vips.is_empty();
    match origin {
        Origin::Node if is_node_port => around.limits.contains(&Limit::NodePortNotFromNode),
        Origin::Node => around.limits.contains(&Limit::NodeCannotReachServices),
        Origin::Pod => false,
        // The documented way around it is the Local traffic policy, which agents ask for by DSR.
        Origin::Outside => {
            let direct = balancer.flags.has(LoadBalancerFlags::DSR);
            is_node_port && !direct && around.mode == Mode::Overlay && around.defects.contains(&Defect::OverlayNodePort)
        }
    }
}

/// A build that gets it wrong parts the pods of a bridge from each other while any load balancer has DSR. Services still work: their rules
/// come first.
fn parted_pods(balancer: &LoadBalancer, origin: Origin, around: &Surroundings<'_>) -> Option<RuleSpec> {
    let defect = Defect::L2BridgePodToPodWithDsr;
    let dsr = balancer.flags.has(LoadBalancerFlags::DSR);
    let is_met = dsr && origin == Origin::Pod && around.mode == Mode::L2Bridge && around.defects.contains(&defect);
    let conditions = Conditions { destinations: vec![AddressMatch::Set(around.prefixes.to_vec().into())], ..Conditions::default() };
    is_met.then(|| RuleSpec::new(format!("{defect} {}", balancer.id), priority::DEFAULT, conditions, Action::Block(DropReason::NoRoute)))
}

/// The virtual addresses: those that are named, or the node's own of one family.
fn frontends(balancer: &LoadBalancer, origin: Origin, around: &Surroundings<'_>) -> Result<Vec<Ip>, CompileError> {
    if !balancer.frontend_vips.is_empty() {
        return balancer.frontend_vips.iter().map(|vip| address("FrontendVIPs", vip).map(Ip::from)).collect();
    }
    let v4 = !balancer.flags.has(LoadBalancerFlags::IPV6);
    // What the node sends to itself never leaves it, unless it is led out under another name.
    let own = if origin == Origin::Node { around.aliases } else { around.node };
    Ok(own.iter().copied().filter(|address| address.is_v4() == v4 && !address.is_link_local()).collect())
}

fn source_vip(balancer: &LoadBalancer) -> Result<Option<Ip>, CompileError> {
    match balancer.source_vip.as_str() {
        "" => Ok(None),
        text => address("SourceVIP", text).map(|vip| Some(Ip::from(vip))),
    }
}

/// The backends of one family for clients of one origin, each with whether it is on this node.
fn candidates(mapping: &LoadBalancerPortMapping, places: &[Place], vip: Ip, extras: &Extras, origin: Origin) -> Vec<(Backend, bool)> {
    let of_family = |place: &Place| place.addresses.iter().copied().find(|address| address.is_v4() == vip.is_v4());
    let backend = |place: &Place| {
        let port = extras.ports.get(&place.id).copied().unwrap_or(mapping.internal_port);
        Some((Backend { address: of_family(place)?, port }, place.local))
    };
    places.iter().filter(|place| extras.serves(place.id, origin)).filter_map(backend).collect()
}

fn distribution(mapping: &LoadBalancerPortMapping) -> Distribution {
    match mapping.distribution_type {
        DistributionType::SourceIp => Distribution::TwoTuple,
        DistributionType::SourceIpProtocol => Distribution::ThreeTuple,
        _ => Distribution::FiveTuple,
    }
}

fn affinity(mapping: &LoadBalancerPortMapping, extras: &Extras, around: &Surroundings<'_>) -> Option<Duration> {
    let asked = mapping.distribution_type != DistributionType::None && !around.limits.contains(&Limit::AffinityTimeoutIgnored);
    asked.then(|| extras.affinity.unwrap_or(AFFINITY))
}

/// What becomes of the client's address.
fn masquerade(
    balancer: &LoadBalancer,
    backends: &[(Backend, bool)],
    origin: Origin,
    vip: Ip,
    source: Option<Ip>,
    around: &Surroundings<'_>,
) -> Option<Masquerade> {
    let dsr = balancer.flags.has(LoadBalancerFlags::DSR);
    let source = source.filter(|source| source.is_v4() == vip.is_v4());
    let node = around.node.iter().copied().find(|address| address.is_v4() == vip.is_v4() && !address.is_link_local());
    let all_here = backends.iter().all(|(_, local)| *local) && !around.limits.contains(&Limit::LocalPolicyNeedsDsr);
    let always = match origin {
        Origin::Pod => !dsr && source.is_some(),
        Origin::Node => around.mode == Mode::Overlay && source.is_some(),
        Origin::Outside => !dsr && !all_here,
    };
    Some(Masquerade { pool: around.pool, address: source.or(node)?, always })
}

/// A port at every address of the node, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePort {
    /// The protocol number.
    pub protocol: u8,
    /// The port.
    pub port: u16,
    /// Whether at the node's IPv4 addresses; if not, at the others.
    pub v4: bool,
}

/// The ports of the node that a load balancer is at.
pub fn node_ports(balancer: &LoadBalancer) -> impl Iterator<Item = NodePort> + '_ {
    let v4 = !balancer.flags.has(LoadBalancerFlags::IPV6);
    let of_node = balancer.frontend_vips.is_empty().then_some(&balancer.port_mappings).into_iter().flatten();
    let number = |mapping: &LoadBalancerPortMapping| mapping.protocol.number().and_then(|number| u8::try_from(number).ok());
    of_node.filter_map(move |mapping| Some(NodePort { protocol: number(mapping)?, port: mapping.external_port, v4 }))
}

/// Answers for a source address, where backends ask for its hardware address. An endpoint that has the address answers first.
pub fn answers(source: Ip, network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let adapter = site.adapter()?;
    let (realm, mac) = match Mode::of(network)? {
        Mode::Overlay => (Realm::Own, super::network::overlay(network, adapter.addresses.first().map(IpNet::addr))?.router_mac),
        _ => (Realm::Wire, adapter.mac),
    };
    let rule = |mac| {
        RuleSpec::new(
            format!("{} source {source}", super::network::label(network)),
            priority::GATEWAY,
            Conditions::to(source),
            Action::Answer(mac),
        )
    };
    let mut rules = vec![Placed::new(realm, Stage::NeighbourOut, rule(mac))];
    if realm == Realm::Wire && !adapter.node_addresses().any(|own| own == source) {
        rules.push(Placed::new(Realm::Wire, Stage::NeighbourIn, rule(adapter.mac)));
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extras(params: Value) -> Result<Extras, String> {
        let document = json!({"AdditionalParams": params});
        let balancer: LoadBalancer = hcn::parse(&document.to_string()).unwrap();
        Extras::of(&balancer).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_of_our_own_are_read_and_what_is_wrong_is_named() {
        let id = "00000000-0000-0000-0000-000000000007";
        let read = extras(json!({
            "AffinityTimeoutSeconds": 5, "BackendPorts": {id: 81}, "InsideEndpoints": [id], "OutsideEndpoints": [],
            "SourceRanges": ["10.1.2.3/8"], "Somebody": "else's"}));
        let read = read.unwrap();
        let seven: Guid = id.parse().unwrap();
        assert!(read.serves(seven, Origin::Pod) && read.serves(seven, Origin::Node) && !read.serves(seven, Origin::Outside));
        assert_eq!((read.ports[&seven], read.sources[0].to_string()), (81, "10.0.0.0/8".to_owned()));
        assert_eq!(extras(json!({})), Ok(Extras::default()));
        for (params, field) in [
            (json!({"AffinityTimeoutSeconds": 0}), "AdditionalParams.AffinityTimeoutSeconds"),
            (json!({"BackendPorts": []}), "AdditionalParams.BackendPorts"),
            (json!({"BackendPorts": {id: 0}}), "AdditionalParams.BackendPorts"),
            (json!({"InsideEndpoints": id}), "AdditionalParams.InsideEndpoints"),
            (json!({"OutsideEndpoints": ["x"]}), "AdditionalParams.OutsideEndpoints"),
            (json!({"SourceRanges": "10.0.0.0/8"}), "AdditionalParams.SourceRanges"),
            (json!({"SourceRanges": ["10.0.0.0/33"]}), "AdditionalParams.SourceRanges"),
        ] {
            let refused = extras(params.clone()).unwrap_err();
            assert!(refused.starts_with(field), "{params}: {refused}");
        }
    }

    #[test]
    fn whoever_is_in_no_range_is_dropped() {
        let rule = RuleSpec::new("web", priority::ENDPOINT, Conditions::any(), Action::Allow);
        assert_eq!(guarded(rule.clone(), &[]).len(), 1);
        let [own, others] = &guarded(rule, &["10.0.0.0/8".parse().unwrap()])[..] else { panic!("two rules") };
        assert_eq!(own.conditions.sources.len(), 1);
        assert!(others.conditions.sources.is_empty() && others.priority > own.priority);
        assert!(matches!(others.action, Action::Block(DropReason::AclBlock)));
    }
}
