//! Subnets and MAC pools of a network.

use std::collections::BTreeSet;

use hcn::error::{Error, Result, detail};
use hcn::network::{MacPool, MacRange, Network, NetworkType, Subnet};
use hcn::policy::subnet::{IsolationSettings, SubnetPolicyType};
use ipnet::IpNet;
use wire::MacAddress;

use crate::build::Build;
use crate::profile::Limit;
use crate::validate::{policy, text};

/// Checks all subnets of a network and completes them: ids, canonical prefixes.
pub(crate) fn subnets(network: &mut Network, build: &Build) -> Result<()> {
    let (mut seen, mut ids): (Vec<IpNet>, BTreeSet<hcn::Guid>) = Default::default();
    for (i, ipam) in network.ipams.iter_mut().enumerate() {
        for (j, part) in ipam.subnets.iter_mut().enumerate() {
            let place = format!("Ipams[{i}].Subnets[{j}]");
            let prefix = subnet(part, build).map_err(|error| error.within(&place))?;
            if !ids.insert(part.id) || seen.len() == MOST_SUBNETS {
                let cause = format!("the id {} is there twice, or these are more than {MOST_SUBNETS} subnets", part.id);
                return Err(Error::InvalidSubnet(detail(cause).field("ID").remedy("leave the id out; use fewer subnets")).within(&place));
            }
            if let Some(other) = seen.iter().find(|other| overlaps(other, &prefix)) {
                return Err(overlapping(&prefix, other, "another subnet of this network").within(&place));
            }
            seen.push(prefix);
        }
    }
    families(network, &seen, build)
}

/// Checks one subnet and completes it. Returns its prefix.
pub(crate) fn subnet(subnet: &mut Subnet, build: &Build) -> Result<IpNet> {
    if subnet.ip_address_prefix.is_empty() {
        let remedy = "write a prefix such as 10.244.1.0/24";
        return Err(Error::InvalidSubnet(detail("the subnet has no prefix").field("IpAddressPrefix").remedy(remedy)));
    }
    let prefix = text::prefix(&subnet.ip_address_prefix, "IpAddressPrefix", Error::InvalidPrefix)?.trunc();
    subnet.ip_address_prefix = prefix.to_string();
    if subnet.id.is_nil() {
        subnet.id = uuid::Uuid::new_v4();
    }
    routes(subnet, &prefix)?;
    ip_subnets(subnet, &prefix)?;
    subnet.policies = policy::subnet_policies(&subnet.policies, build)?;
    Ok(prefix)
}

fn routes(subnet: &mut Subnet, prefix: &IpNet) -> Result<()> {
    for (index, route) in subnet.routes.iter_mut().enumerate() {
        let place = format!("Routes[{index}]");
        let mut check = || {
            let destination = text::prefix(&route.destination_prefix, "DestinationPrefix", Error::InvalidSubnet)?;
            text::optional_ip(&mut route.next_hop, "NextHop", Error::InvalidSubnet)?;
            let hop: Option<std::net::IpAddr> = route.next_hop.parse().ok();
            if destination.addr().is_ipv4() != prefix.addr().is_ipv4() || hop.is_some_and(|hop| hop.is_ipv4() != prefix.addr().is_ipv4()) {
                let cause = format!("the route and the subnet {prefix} are of different IP versions");
                return Err(Error::InvalidSubnet(detail(cause).field("NextHop").remedy("use an address of the subnet's version")));
            }
            Ok(())
        };
        check().map_err(|error| error.within(&place))?;
    }
    Ok(())
}

/// Checks the IP subnets of a subnet: inside it, and apart from each other.
pub(crate) fn ip_subnets(subnet: &mut Subnet, prefix: &IpNet) -> Result<()> {
    let (mut seen, mut ids): (Vec<IpNet>, BTreeSet<hcn::Guid>) = Default::default();
    for (index, part) in subnet.ip_subnets.iter_mut().enumerate() {
        let field = format!("IpSubnets[{index}].IpAddressPrefix");
        let inner = text::prefix(&part.ip_address_prefix, &field, Error::InvalidIpSubnet)?.trunc();
        if !prefix.contains(&inner) {
            let cause = format!("{inner} is not inside the subnet {prefix}");
            return Err(Error::InvalidIpSubnet(detail(cause).field(field).remedy("choose a part of the subnet")));
        }
        if let Some(other) = seen.iter().find(|other| overlaps(other, &inner)) {
            let cause = format!("{inner} overlaps {other}");
            return Err(Error::InvalidIpSubnet(detail(cause).field(field).remedy("choose parts that do not overlap")));
        }
        part.ip_address_prefix = inner.to_string();
        if part.id.is_nil() {
            part.id = uuid::Uuid::new_v4();
        }
        if !ids.insert(part.id) || seen.len() == MOST_SUBNETS {
            let cause = format!("the id {} is there twice, or these are more than {MOST_SUBNETS} IP subnets", part.id);
            return Err(Error::InvalidIpSubnet(detail(cause).field(format!("IpSubnets[{index}].ID")).remedy("leave the id out")));
        }
        seen.push(inner);
    }
    Ok(())
}

fn families(network: &Network, prefixes: &[IpNet], build: &Build) -> Result<()> {
    let has = |v4: bool| prefixes.iter().any(|prefix| prefix.addr().is_ipv4() == v4);
    let refuse = |limit: Limit| {
        let cause = format!("{} has this limit: {}", build.profile.windows, limit.says());
        Err(Error::RequestUnsupported(detail(cause).field("Ipams").remedy(format!("use IPv4, or --without {limit}"))))
    };
    if has(false) && network.network_type == NetworkType::Overlay && build.limited(Limit::OverlayNoIpv6) {
        return refuse(Limit::OverlayNoIpv6);
    }
    if has(false) && !has(true) && build.limited(Limit::NoIpv6Only) {
        return refuse(Limit::NoIpv6Only);
    }
    Ok(())
}

/// The error for two subnets that share addresses.
pub(crate) fn overlapping(prefix: &IpNet, other: &IpNet, whose: &str) -> Error {
    let cause = format!("{prefix} overlaps {other}, {whose}");
    Error::InvalidSubnet(detail(cause).field("IpAddressPrefix").remedy("choose a prefix that no other subnet has a part of"))
}

/// Whether two prefixes share addresses.
pub(crate) fn overlaps(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// What keeps two networks with the same subnet apart: VLAN or virtual subnet.
pub(crate) fn isolation(subnet: &Subnet) -> (Option<u32>, Option<u32>) {
    let id = |kind| hcn::policy::find::<_, IsolationSettings>(&subnet.policies, &kind).map(|settings| settings.isolation_id);
    (id(SubnetPolicyType::Vlan), id(SubnetPolicyType::Vsid))
}

/// How many ranges a MAC pool may have.
const MOST_RANGES: usize = 256;

/// How many subnets a network, and IP subnets a subnet, may have.
const MOST_SUBNETS: usize = 1024;

/// Checks the ranges of a MAC pool.
pub(crate) fn mac_pool(pool: &mut MacPool) -> Result<()> {
    if pool.ranges.len() > MOST_RANGES {
        let cause = format!("{} ranges are more than the {MOST_RANGES} that a pool may have", pool.ranges.len());
        return Err(Error::InvalidNetwork(detail(cause).field("MacPool.Ranges").remedy("use fewer, larger ranges")));
    }
    let mut seen: Vec<(MacAddress, MacAddress)> = Vec::new();
    for (index, range) in pool.ranges.iter_mut().enumerate() {
        let bounds = mac_range(range).map_err(|error| error.within(&format!("MacPool.Ranges[{index}]")))?;
        if seen.iter().any(|(first, last)| bounds.0 <= *last && *first <= bounds.1) {
            let cause = format!("{}-{} overlaps another range", bounds.0, bounds.1);
            let field = format!("MacPool.Ranges[{index}]");
            return Err(Error::InvalidNetwork(detail(cause).field(field).remedy("choose ranges that do not overlap")));
        }
        seen.push(bounds);
    }
    Ok(())
}

fn mac_range(range: &mut MacRange) -> Result<(MacAddress, MacAddress)> {
    let first = text::mac(&range.start, "StartMacAddress", Error::InvalidNetwork)?;
    let last = text::mac(&range.end, "EndMacAddress", Error::InvalidNetwork)?;
    if last < first {
        let cause = format!("the range ends at {last}, before it begins at {first}");
        return Err(Error::InvalidNetwork(detail(cause).field("EndMacAddress").remedy("swap the two")));
    }
    if first.is_multicast() || first.0[0] != last.0[0] || first == MacAddress::default() {
        let cause = "the range has addresses that no NIC can have: all zero, or multicast";
        let remedy = "choose a range within one first byte, an even one, and not from 00-00-00-00-00-00 on";
        return Err(Error::InvalidNetwork(detail(cause).field("StartMacAddress").remedy(remedy)));
    }
    range.start = first.to_string();
    range.end = last.to_string();
    Ok((first, last))
}
