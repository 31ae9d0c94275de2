//! What a topology must be besides well-formed.

mod network;

use ipnet::IpNet;

use super::ranges::{overlap, parts, room};
use super::{API_VERSION, KIND, NodeSpec, Os, Topology};

/// What is wrong with a topology: the field, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) field: String,
    pub(super) cause: String,
}

type Checked = Result<(), Wrong>;

fn wrong(field: impl Into<String>, cause: impl Into<String>) -> Checked {
    Err(Wrong { field: field.into(), cause: cause.into() })
}

/// Looks at everything. The first thing that is wrong is told.
pub(super) fn check(topology: &Topology, is_build: &dyn Fn(&NodeSpec) -> Result<(), String>) -> Checked {
    if topology.api_version != API_VERSION {
        return wrong("apiVersion", format!("{:?} is not known; write {API_VERSION}", topology.api_version));
    }
    if topology.kind != KIND {
        return wrong("kind", format!("{:?} is no topology; write {KIND}", topology.kind));
    }
    if let Some(name) = &topology.name {
        check_name("name", name)?;
    }
    check_nodes(topology, is_build)?;
    check_ranges(topology)?;
    network::check(topology)
}

fn check_nodes(topology: &Topology, is_build: &dyn Fn(&NodeSpec) -> Result<(), String>) -> Checked {
    if topology.nodes.is_empty() {
        return wrong("nodes", "a lab needs at least one node");
    }
    for (position, node) in topology.nodes.iter().enumerate() {
        let field = |name: &str| format!("nodes[{position}].{name}");
        check_name(&field("name"), &node.name)?;
        if topology.nodes[..position].iter().any(|other| other.name == node.name) {
            return wrong(field("name"), format!("there is another node {:?}; names are unique", node.name));
        }
        if node.os == Os::Linux && (node.build.is_some() || !node.with.is_empty() || !node.without.is_empty()) {
            return wrong(field("build"), "a Linux node has no build of Windows; leave build, with and without away");
        }
        if let Err(cause) = is_build(node) {
            return wrong(field("build"), cause);
        }
        check_foreign(node, field)?;
    }
    Ok(())
}

/// Programs of others.
fn check_foreign(node: &NodeSpec, field: impl Fn(&str) -> String) -> Checked {
    let proxy = &node.kube_proxy;
    if proxy.command.is_empty() && !proxy.variables.is_empty() {
        return wrong(
            field("kubeProxy.variables"),
            "they are for a kube-proxy of your own; name it with kubeProxy.command, or leave them away",
        );
    }
    if proxy.command.first().is_some_and(String::is_empty) {
        return wrong(field("kubeProxy.command"), "its first word is empty; write the program");
    }
    let Some(cni) = &node.cni else { return Ok(()) };
    if node.os == Os::Linux {
        return wrong(field("cni"), "pods of Linux nodes are connected by the lab itself; leave cni away");
    }
    match &cni.config {
        Some(config) if config["type"].as_str().is_none_or(str::is_empty) => {
            wrong(field("cni.config"), "it names no plugin; write type: NAME")
        }
        _ => Ok(()),
    }
}

/// Names become host names, files and parts of DNS names.
fn check_name(field: &str, name: &str) -> Checked {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.len() <= 40
        && name.chars().all(|c| is_letter(c) || c == '-')
        && name.starts_with(is_letter)
        && name.ends_with(is_letter)
        && name != "outside"
        && name != "router";
    match is_name {
        true => Ok(()),
        false => wrong(field, format!("{name:?} is no name; use at most 40 small letters, digits and '-', but not router or outside")),
    }
}

fn check_ranges(topology: &Topology) -> Checked {
    let cluster = &topology.cluster;
    let ranges: Vec<(&str, &[IpNet])> = vec![
        ("underlay.subnets", &topology.underlay.subnets),
        ("underlay.outside", &topology.underlay.outside),
        ("cluster.podSubnets", &cluster.pod_subnets),
        ("cluster.serviceSubnets", &cluster.service_subnets),
        ("cluster.loadBalancerSubnet", std::slice::from_ref(&cluster.load_balancer_subnet)),
    ];
    for (field, list) in &ranges {
        check_families(field, list)?;
    }
    if let Some(address) = cluster.dns_address
        && !cluster.service_subnets.iter().any(|range| range.contains(&address))
    {
        return wrong("cluster.dnsAddress", format!("{address} is not in cluster.serviceSubnets; names are served by a Service"));
    }
    let all: Vec<(&str, IpNet)> = ranges.iter().flat_map(|(field, list)| list.iter().map(move |range| (*field, *range))).collect();
    for (position, (field, range)) in all.iter().enumerate() {
        if let Some((other, clash)) = all[..position].iter().find(|(_, other)| overlap(*range, *other)) {
            return wrong(*field, format!("{range} overlaps with {clash} of {other}; give each a range of its own"));
        }
    }
    check_sizes(topology)
}

/// One range a family, the preferred family first.
fn check_families(field: &str, list: &[IpNet]) -> Checked {
    match list {
        [_] => Ok(()),
        [a, b] if a.addr().is_ipv4() != b.addr().is_ipv4() => Ok(()),
        _ => wrong(field, "give one range, or two of different families"),
    }
}

fn check_sizes(topology: &Topology) -> Checked {
    let nodes = topology.nodes.len() as u128;
    for subnet in &topology.underlay.subnets {
        if room(*subnet) < 10 + nodes {
            return wrong("underlay.subnets", format!("{subnet} is too small for {nodes} nodes and a router; use a shorter prefix"));
        }
    }
    for range in &topology.underlay.outside {
        if room(*range) < 10 {
            return wrong("underlay.outside", format!("{range} is too small; use a shorter prefix"));
        }
    }
    for range in &topology.cluster.pod_subnets {
        if parts(*range) < nodes + 1 {
            let least = if range.addr().is_ipv4() { "every node takes a /24" } else { "every node takes a /64" };
            return wrong("cluster.podSubnets", format!("{range} is too small for {nodes} nodes: {least}; use a shorter prefix"));
        }
    }
    for range in &topology.cluster.service_subnets {
        if room(*range) < 20 {
            return wrong("cluster.serviceSubnets", format!("{range} is too small; use a shorter prefix"));
        }
    }
    let families = |list: &[IpNet]| list.iter().map(|range| range.addr().is_ipv4()).collect::<Vec<_>>();
    let (pods, services) = (families(&topology.cluster.pod_subnets), families(&topology.cluster.service_subnets));
    if services.iter().any(|family| !pods.contains(family)) {
        return wrong("cluster.serviceSubnets", "Services have a family that pods do not have; add a range to cluster.podSubnets");
    }
    match pods.iter().all(|family| families(&topology.underlay.subnets).contains(family)) {
        true => Ok(()),
        false => wrong("underlay.subnets", "pods have a family that nodes do not have; add a range to underlay.subnets"),
    }
}
