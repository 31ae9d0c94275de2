//! `L4Proxy`: connections of an endpoint led to a proxy.
//!
//! | field | meaning |
//! |---|---|
//! | `IP`, `Port` | the proxy; without an address, the endpoint itself |
//! | `Protocol` | which connections: TCP if it is left out |
//! | `Destination` | to where they must go to be led away; anywhere if it is empty |
//! | `Exceptions` | destinations that are reached directly |
//! | `OutboundNAT` | whether the proxy sees the node's address instead of the endpoint's |
//!
//! What already goes to the proxy, to the node or to a group is left alone, and so is what the proxy itself sends. On a network it holds for
//! all endpoints of it, after their own. Lands in layer `proxy`, outwards, before services: what a proxy takes never chooses a backend.

use std::sync::Arc;

use hcn::policy::Policy;
use hcn::policy::endpoint::EndpointPolicyType;
use hcn::policy::network::{L4ProxySettings, NetworkPolicyType};
use ipnet::IpNet;
use vfp::{Action, AddressMatch, Backend, Backends, Conditions, GroupSpec, LayerSpec, Masquerade, RuleSpec, Service};
use wire::Ip;
use wire::number::protocol;

use super::{AdapterSite, CompileError, address, prefix, settings};

const EXCEPTION: u16 = 10;
const LED: u16 = 20;

/// The layer, if the endpoint or its network has such a policy. `own` are the endpoint's addresses.
pub fn layer(endpoint: &[Policy], network: &[Policy], own: &[Ip], adapter: &AdapterSite) -> Result<Option<LayerSpec>, CompileError> {
    let mut policies: Vec<L4ProxySettings> = settings(endpoint, &EndpointPolicyType::L4Proxy)?;
    policies.extend(settings::<_, L4ProxySettings>(network, &NetworkPolicyType::L4Proxy)?);
    let mut outward = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        outward.extend(group(number, policy, own, adapter)?);
    }
    Ok((!outward.is_empty()).then(|| LayerSpec { name: "proxy".into(), stateful: true, outward, ..LayerSpec::default() }))
}

fn group(number: usize, policy: &L4ProxySettings, own: &[Ip], adapter: &AdapterSite) -> Result<Option<GroupSpec>, CompileError> {
    let proxies: Vec<Ip> = match policy.ip.as_str() {
        "" => own.to_vec(),
        text => vec![Ip::from(address("IP", text)?)],
    };
    if !policy.ip.is_empty() && own.contains(&proxies[0]) {
        // The proxy would only ever talk to itself.
        return Ok(None);
    }
    let port = policy.port.trim().parse().map_err(|_| CompileError::new("Port", format!("{:?} is no port", policy.port)))?;
    let mut rules = vec![untouched(policy, &proxies, adapter)?];
    for proxy in proxies {
        rules.push(led(policy, Backend { address: proxy, port }, adapter)?);
    }
    Ok(Some(GroupSpec { name: format!("L4Proxy {}", number + 1), rules }))
}

/// What is reached directly. Another proxy may still take it.
fn untouched(policy: &L4ProxySettings, proxies: &[Ip], adapter: &AdapterSite) -> Result<RuleSpec, CompileError> {
    let groups = ["224.0.0.0/4", "255.255.255.255/32", "ff00::/8", "fe80::/10"].into_iter().filter_map(|prefix| prefix.parse().ok());
    let hosts = proxies.iter().copied().chain(adapter.node_addresses()).map(|address| IpNet::from(std::net::IpAddr::from(address)));
    let mut prefixes: Vec<IpNet> = hosts.chain(groups).collect();
    for exception in &policy.exceptions {
        prefixes.push(prefix("Exceptions", exception)?);
    }
    let conditions = Conditions { destinations: vec![AddressMatch::Set(prefixes.into())], ..Conditions::default() };
    Ok(RuleSpec::new("exceptions", EXCEPTION, conditions, Action::Pass))
}

fn led(policy: &L4ProxySettings, to: Backend, adapter: &AdapterSite) -> Result<RuleSpec, CompileError> {
    let family = if to.address.is_v4() { "0.0.0.0/0" } else { "::/0" };
    let destination = if policy.destination.is_empty() { family } else { &policy.destination };
    let number = policy.protocol.number().and_then(|number| u8::try_from(number).ok()).filter(|number| *number != 0);
    let conditions = Conditions {
        protocols: vec![number.unwrap_or(protocol::TCP)],
        sources: vec![AddressMatch::Prefix(prefix("IP", family)?)],
        destinations: vec![AddressMatch::Prefix(prefix("Destination", destination)?)],
        ..Conditions::default()
    };
    let node = adapter.address_like(to.address);
    if policy.outbound_nat && node.is_none() && !policy.ip.is_empty() {
        return Err(CompileError::new("OutboundNAT", "the node has no address of that family where the endpoint is"));
    }
    let masquerade = node.map(|address| Masquerade { pool: adapter.pool, address, always: policy.outbound_nat });
    let service = Service { backends: Backends::new(vec![to]), masquerade, ..Service::default() };
    let name = format!("to {}", std::net::SocketAddr::new(to.address.into(), to.port));
    Ok(RuleSpec::new(name, LED, conditions, Action::Redirect(Arc::new(service))))
}
