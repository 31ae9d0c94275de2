//! Leases: what a Node says about the subnets behind it and the way there.
//!
//! Everything comes from others, so nothing is believed: what is missing or contradictory is said, and the rest is used.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;
use wire::MacAddress;

use crate::annotation::{self, Prefix};
use crate::{address_like, prefix_like};

/// A node's end of the tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vtep {
    /// The virtual network.
    pub vni: u32,
    /// The hardware address that inner frames go to.
    pub mac: MacAddress,
}

/// What is behind another node, and the way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The node's name.
    pub node: String,
    /// The subnets of its pods, at most one of a family.
    pub subnets: Vec<IpNet>,
    /// Its addresses on the underlay, at most one of a family.
    pub addresses: Vec<IpAddr>,
    /// Its end of the tunnels, if there are any.
    pub vtep: Option<Vtep>,
}

/// What this node takes part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The networks of all pods.
    pub networks: Vec<IpNet>,
    /// The name of the backend.
    pub backend: &'static str,
    /// The virtual network, if the backend has one.
    pub vni: Option<u32>,
    /// What annotations begin with.
    pub prefix: Prefix,
}

impl Membership {
    /// Whether tunnels go over IPv4. One underlay carries both families.
    pub fn has_v4_underlay(&self) -> bool {
        prefix_like(&self.networks, true).is_some()
    }
}

/// The subnets of a Node within the networks of all pods, IPv4 first.
pub fn subnets(node: &Node, networks: &[IpNet]) -> Result<Vec<IpNet>, String> {
    let spec = node.spec.as_ref();
    let single = spec.and_then(|spec| spec.pod_cidr.as_deref()).filter(|text| !text.is_empty());
    let listed: Vec<&str> = spec.and_then(|spec| spec.pod_cidrs.as_ref()).into_iter().flatten().map(String::as_str).collect();
    if let (Some(single), Some(first)) = (single, listed.first())
        && single != *first
    {
        return Err(format!("its podCIDR {single} and its podCIDRs {} contradict each other", listed.join(",")));
    }
    let texts = if listed.is_empty() { single.into_iter().collect() } else { listed };
    let mut subnets: Vec<IpNet> = Vec::new();
    for text in texts {
        let subnet: IpNet = text.parse().map_err(|_| format!("its podCIDR {text:?} is no prefix"))?;
        let v4 = subnet.addr().is_ipv4();
        if prefix_like(&subnets, v4).is_some() {
            return Err(format!("it has two podCIDRs of one family, {text} among them"));
        }
        match prefix_like(networks, v4) {
            Some(network) if network.contains(&subnet) => subnets.push(subnet.trunc()),
            Some(network) => return Err(format!("its podCIDR {text} is not within the pods' network {network}")),
            None => {}
        }
    }
    subnets.sort_by_key(|subnet| subnet.addr().is_ipv6());
    Ok(subnets)
}

/// The lease of another node; none, if there is no flannel on it.
pub fn peer(node: &Node, membership: &Membership) -> Result<Option<Lease>, String> {
    let annotations = membership.prefix.of(node);
    if annotations.get(annotation::MANAGED).map(String::as_str) != Some("true") {
        return Ok(None);
    }
    let kind = annotations.get(annotation::BACKEND_TYPE).map(String::as_str).unwrap_or_default();
    if !kind.eq_ignore_ascii_case(membership.backend) {
        return Err(format!("its backend is {kind:?}, and this node's is {:?}", membership.backend));
    }
    let subnets = subnets(node, &membership.networks)?;
    if subnets.is_empty() {
        return Err("it has no podCIDR".to_owned());
    }
    let addresses = addresses(&annotations)?;
    let mut lease = Lease { node: node.metadata.name.clone().unwrap_or_default(), subnets, addresses, vtep: None };
    match membership.vni {
        Some(vni) => complete_tunnel(&mut lease, &annotations, membership, vni)?,
        None => check_gateways(&lease)?,
    }
    Ok(Some(lease))
}

fn addresses(annotations: &BTreeMap<String, String>) -> Result<Vec<IpAddr>, String> {
    let mut addresses = Vec::new();
    for (key, v4) in [(annotation::PUBLIC_IP, true), (annotation::PUBLIC_IPV6, false)] {
        let Some(text) = annotations.get(key).filter(|text| !text.is_empty()) else { continue };
        match text.parse::<IpAddr>() {
            Ok(address) if address.is_ipv4() == v4 && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast() => {
                addresses.push(address);
            }
            _ => return Err(format!("its {key} {text:?} is no address of a node")),
        }
    }
    Ok(addresses)
}

fn complete_tunnel(lease: &mut Lease, annotations: &BTreeMap<String, String>, membership: &Membership, vni: u32) -> Result<(), String> {
    let v4 = membership.has_v4_underlay();
    if address_like(&lease.addresses, v4).is_none() {
        let key = if v4 { annotation::PUBLIC_IP } else { annotation::PUBLIC_IPV6 };
        return Err(format!("it has no {key}"));
    }
    let data = |v4: bool| {
        let key = if v4 { annotation::BACKEND_DATA } else { annotation::BACKEND_V6_DATA };
        vtep(key, annotations.get(key).map(String::as_str).unwrap_or_default(), vni)
    };
    let vtep = data(v4)?;
    if v4 && prefix_like(&lease.subnets, false).is_some() && data(false) != Ok(vtep) {
        // The original on Linux has a tunnel of its own for IPv6, over IPv6. Its IPv4 works.
        lease.subnets.retain(|subnet| subnet.addr().is_ipv4());
    }
    lease.vtep = Some(vtep);
    Ok(())
}

fn vtep(key: &str, text: &str, vni: u32) -> Result<Vtep, String> {
    let data: Value = serde_json::from_str(text).map_err(|_| format!("its {key} {text:?} cannot be read"))?;
    let (number, mac) = (data["VNI"].as_u64(), data["VtepMAC"].as_str().unwrap_or_default());
    if number != Some(u64::from(vni)) {
        return Err(format!(
            "its virtual network is {}, and this node's is {vni}; set VNI and Port in net-conf.json, since nodes of Windows and Linux take different ones",
            number.map_or("not known".to_owned(), |number| number.to_string())
        ));
    }
    if mac.is_empty() {
        return Err("it has not published the hardware address of its end of the tunnels yet".to_owned());
    }
    match mac.parse::<MacAddress>() {
        Ok(mac) if !mac.is_multicast() && mac != MacAddress::default() => Ok(Vtep { vni, mac }),
        _ => Err(format!("its {key} names {mac:?}, which is no hardware address of a node")),
    }
}

/// The hardware address under which a node's end of the tunnels was published, whatever its virtual network was.
pub fn published_mac(annotations: &BTreeMap<String, String>) -> Option<MacAddress> {
    let read = |key: &str| {
        let data: Value = serde_json::from_str(annotations.get(key)?).ok()?;
        data["VtepMAC"].as_str()?.parse::<MacAddress>().ok().filter(|mac| !mac.is_multicast() && *mac != MacAddress::default())
    };
    read(annotation::BACKEND_DATA).or_else(|| read(annotation::BACKEND_V6_DATA))
}

fn check_gateways(lease: &Lease) -> Result<(), String> {
    for subnet in &lease.subnets {
        if address_like(&lease.addresses, subnet.addr().is_ipv4()).is_none() {
            return Err(format!("it has no public address of the family of {subnet}"));
        }
    }
    Ok(())
}
