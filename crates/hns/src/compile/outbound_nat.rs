//! `OutBoundNAT`: what leaves for the outside gets the node's address.
//!
//! | field | meaning |
//! |---|---|
//! | `VirtualIP` | the address to take instead of the node's |
//! | `Exceptions` | destinations that are not translated |
//! | `Destinations` | if there are any, only these are translated |
//! | `MaxPortPoolUsage` | how many ports the endpoint may have towards one destination |
//! | `Flags` | `IPv6`: the policy is about IPv6; without it, about IPv4, or about the family of `VirtualIP` |
//!
//! Several policies on one endpoint combine: each is asked in turn, and the first that translates decides. Never translated are packets to the
//! node itself, to the subnets of the endpoint's own network, and to groups of receivers. Those of the first two Windows leaves open; a
//! translated packet to the node would have the node's address on both ends. Under a Windows build ICMP leaves untranslated, as VFP has no transposition
//! for it.
//!
//! Lands in layer `nat`, one group a policy, outwards. On the wire the node answers for every `VirtualIP`, so that what comes back finds it.

use std::collections::BTreeSet;

use hcn::endpoint::Endpoint;
use hcn::policy::Policy;
use hcn::policy::endpoint::{EndpointPolicyType, NatFlags, OutBoundNatSettings};
use ipnet::IpNet;
use vfp::{Action, AddressMatch, Conditions, GroupSpec, LayerSpec, RuleSpec, Stage};
use wire::Ip;
use wire::number::protocol;

use super::endpoint::{hardware_address, label};
use super::{AdapterSite, CompileError, Placed, Realm, Site, address, prefix, priority, settings};
use crate::profile::Limit;

const EXCEPTION: u16 = 10;
const ICMP: u16 = 20;
const TRANSLATE: u16 = 30;

/// The layer, if the endpoint has such a policy. `local` are prefixes that are never translated.
pub fn layer(policies: &[Policy], local: &[IpNet], site: &Site) -> Result<Option<LayerSpec>, CompileError> {
    let policies: Vec<OutBoundNatSettings> = settings(policies, &EndpointPolicyType::OutBoundNat)?;
    if policies.is_empty() {
        return Ok(None);
    }
    let adapter = site.adapter()?;
    let mut outward = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        outward.push(group(number, policy, local, site, adapter)?);
    }
    Ok(Some(LayerSpec { name: "nat".into(), stateful: true, outward, ..LayerSpec::default() }))
}

fn group(
    number: usize,
    policy: &OutBoundNatSettings,
    local: &[IpNet],
    site: &Site,
    adapter: &AdapterSite,
) -> Result<GroupSpec, CompileError> {
    let mut rules = Vec::new();
    let node = adapter.addresses.iter().map(|prefix| IpNet::from(prefix.addr()));
    let groups = ["224.0.0.0/4", "255.255.255.255/32", "ff00::/8", "fe80::/10"].into_iter().filter_map(|prefix| prefix.parse().ok());
    let never = node.chain(local.iter().copied()).chain(groups);
    rules.push(except("never", never.collect()));
    let exceptions = prefixes("Exceptions", &policy.exceptions)?;
    if !exceptions.is_empty() {
        rules.push(except("exceptions", exceptions));
    }
    if site.has(Limit::IcmpNotTranslated) {
        let icmp = Conditions { protocols: vec![protocol::ICMP, protocol::ICMPV6], ..Conditions::default() };
        rules.push(RuleSpec::new("icmp", ICMP, icmp, Action::Allow));
    }
    let destinations: Vec<AddressMatch> = prefixes("Destinations", &policy.destinations)?.into_iter().map(AddressMatch::Prefix).collect();
    let source = source(policy, adapter)?;
    let action = Action::SourceNat {
        pool: adapter.pool,
        address: source,
        underlay: adapter.underlay,
        most: Some(policy.max_port_pool_usage).filter(|most| *most > 0),
    };
    // The family is asked by source: a list of destinations is of its own family already.
    let family = prefix("VirtualIP", if source.is_v4() { "0.0.0.0/0" } else { "::/0" })?;
    let conditions = Conditions { sources: vec![AddressMatch::Prefix(family)], destinations, ..Conditions::default() };
    rules.push(RuleSpec::new(format!("as {source}"), TRANSLATE, conditions, action));
    Ok(GroupSpec { name: format!("OutBoundNAT {}", number + 1), rules })
}

/// The address that a policy gives to what leaves.
fn source(policy: &OutBoundNatSettings, adapter: &AdapterSite) -> Result<Ip, CompileError> {
    if !policy.virtual_ip.is_empty() {
        return Ok(Ip::from(address("VirtualIP", &policy.virtual_ip)?));
    }
    let v4 = adapter.address_like(Ip::v4(0));
    let v6 = adapter.address_like(Ip::NONE);
    let found = if policy.flags.has(NatFlags::IPV6) { v6 } else { v4 };
    found.ok_or_else(|| CompileError::new("OutBoundNAT", "the adapter has no address of that family to translate to"))
}

fn except(name: &str, prefixes: Vec<IpNet>) -> RuleSpec {
    let conditions = Conditions { destinations: vec![AddressMatch::Set(prefixes.into())], ..Conditions::default() };
    RuleSpec::new(name, EXCEPTION, conditions, Action::Pass)
}

fn prefixes(field: &str, list: &[String]) -> Result<Vec<IpNet>, CompileError> {
    list.iter().map(|text| prefix(field, text)).collect()
}

/// Answers on the wire for addresses that stand for an endpoint without being the node's. Endpoints may share such an address, so that each
/// has a rule of its own.
pub fn answers(endpoint: &Endpoint, adapter: &AdapterSite) -> Result<Vec<Placed>, CompileError> {
    let policies: Vec<OutBoundNatSettings> = settings(&endpoint.policies, &EndpointPolicyType::OutBoundNat)?;
    let (mac, name) = (hardware_address(endpoint)?, label(endpoint));
    let mut addresses = BTreeSet::new();
    for policy in policies.iter().filter(|policy| !policy.virtual_ip.is_empty()) {
        addresses.insert(Ip::from(address("VirtualIP", &policy.virtual_ip)?));
    }
    let answer = |of: Ip| {
        let name = format!("{name} {mac} as {of}");
        Placed::new(
            Realm::Wire,
            Stage::NeighbourIn,
            RuleSpec::new(name, priority::ENDPOINT, Conditions::to(of), Action::Answer(adapter.mac)),
        )
    };
    Ok(addresses.into_iter().filter(|address| !adapter.node_addresses().any(|own| own == *address)).map(answer).collect())
}
