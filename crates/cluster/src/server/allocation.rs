//! Addresses and node ports of Services, each given out once.
//!
//! Who has what follows from the stored Services: the state keeps an index of claims, so nothing can be leaked or given out
//! twice, and there is nothing to repair after a crash.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::document::{child, default, list, text};
use super::field::Errors;
use super::resource::ip_address::is_managed;
use super::resource::service::{address_claim, has_node_ports, node_port_claim};
use super::resource::{IP_ADDRESSES, SERVICES};
use super::status::{Failure, Result};
use super::store::{Draft, Key};

/// How many tries a random choice gets before all are looked at in turn.
const TRIES: usize = 32;

/// What Services get their addresses and ports from.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    /// One for each family, the preferred one first.
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) node_ports: RangeInclusive<u16>,
}

impl Ranges {
    fn of_family(&self, family: &str) -> Option<IpNet> {
        self.addresses.iter().copied().find(|range| family_of(range.addr()) == family)
    }
}

/// What the family of an address is called.
pub(crate) fn family_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Gives a changed Service what the client left out and the old one has.
pub(crate) fn carry_over(document: &mut Value, old: &Value) {
    let keeps = |document: &Value| text(document, "/spec/type") != "ExternalName";
    give_back(document, old);
    if !keeps(document) || !keeps(old) {
        return;
    }
    let spec = child(document, "spec");
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let is_empty = spec.get(key).is_none_or(|value| value.is_null() || *value == "" || value.as_array().is_some_and(Vec::is_empty));
        if let Some(value) = old["spec"].get(key).filter(|_| is_empty) {
            spec.insert(key.to_owned(), value.clone());
        }
    }
}

/// Takes away what a client only repeats and the new type does not have.
fn give_back(document: &mut Value, old: &Value) {
    let kind = text(document, "/spec/type").to_owned();
    let old_kind = text(old, "/spec/type");
    let spec = child(document, "spec");
    if kind == "ExternalName" && old_kind != "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(key) == old["spec"].get(key) {
                spec.shift_remove(key);
            }
        }
    }
    if matches!(kind.as_str(), "ClusterIP" | "ExternalName") && matches!(old_kind, "NodePort" | "LoadBalancer") {
        let given: Vec<&Value> = list(old, "/spec/ports").iter().map(|port| &port["nodePort"]).collect();
        for port in super::document::items_mut(spec, "ports") {
            if port.get("nodePort").is_some_and(|number| given.contains(&number)) {
                port.shift_remove("nodePort");
            }
        }
        for key in ["externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"] {
            if spec.get(key) == old["spec"].get(key) {
                spec.shift_remove(key);
            }
        }
    }
}

/// Gives a Service addresses and node ports, or checks those it asks for.
pub(crate) fn allocate(draft: &Draft, ranges: &Ranges, key: &Key, document: &mut Value, old: Option<&Value>) -> Result<()> {
    let mut errors = Errors::default();
    if text(document, "/spec/type") == "ExternalName" {
        release(document);
    } else {
        families(ranges, document, &mut errors);
        addresses(draft, ranges, key, document, &mut errors);
    }
    node_ports(draft, ranges, key, document, old, &mut errors);
    health_port(draft, ranges, key, document, old, &mut errors);
    match errors.0.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid(&SERVICES, &key.name, &errors.0)),
    }
}

fn release(document: &mut Value) {
    let spec = child(document, "spec");
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        spec.shift_remove(key);
    }
}

/// Settles which families of addresses the Service has.
fn families(ranges: &Ranges, document: &mut Value, errors: &mut Errors) {
    let given: Vec<String> = list(document, "/spec/ipFamilies").iter().filter_map(|family| family.as_str().map(str::to_owned)).collect();
    for (index, family) in given.iter().enumerate() {
        if ranges.of_family(family).is_none() {
            errors.invalid(format!("spec.ipFamilies[{index}]"), family.as_str(), "not configured on this cluster");
        }
    }
    let asked = list(document, "/spec/clusterIPs").iter().chain(document.pointer("/spec/clusterIP"));
    let asked = asked.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok()).map(|address| family_of(address).to_owned());
    let mut wanted = if given.is_empty() { asked.collect() } else { given };
    wanted.dedup();
    let configured = ranges.addresses.iter().map(|range| family_of(range.addr()).to_owned());
    // Backends of any family may be added by hand where nothing is selected.
    let is_open = text(document, "/spec/clusterIP") == "None" && super::document::texts(document, "/spec/selector").next().is_none();
    let spec = child(document, "spec");
    default(spec, "ipFamilyPolicy", if wanted.len() > 1 || (is_open && wanted.is_empty()) { "RequireDualStack" } else { "SingleStack" });
    let policy = spec.get("ipFamilyPolicy").and_then(Value::as_str).unwrap_or_default().to_owned();
    for family in configured {
        let room = if policy == "SingleStack" { 1 } else { 2 };
        if wanted.len() < room && !wanted.contains(&family) {
            wanted.push(family);
        }
    }
    if policy == "SingleStack" {
        wanted.truncate(1);
    }
    if policy == "RequireDualStack" && ranges.addresses.len() < 2 && !is_open {
        errors.invalid("spec.ipFamilyPolicy", policy.as_str(), "this cluster is not configured for dual-stack services");
    }
    errors.one_of("spec.ipFamilyPolicy", &json!(policy), &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    spec.insert("ipFamilies".into(), wanted.into());
}

fn addresses(draft: &Draft, ranges: &Ranges, key: &Key, document: &mut Value, errors: &mut Errors) {
    if text(document, "/spec/clusterIP") == "None" {
        child(document, "spec").insert("clusterIPs".into(), json!(["None"]));
        return;
    }
    let mut all: Vec<String> =
        list(document, "/spec/clusterIPs").iter().filter_map(|address| address.as_str().map(str::to_owned)).collect();
    let first = text(document, "/spec/clusterIP").to_owned();
    if all.is_empty() && !first.is_empty() {
        all.push(first);
    }
    for address in &all {
        check_address(draft, ranges, key, address, errors);
    }
    let families: Vec<String> = list(document, "/spec/ipFamilies").iter().filter_map(|family| family.as_str().map(str::to_owned)).collect();
    all.truncate(families.len());
    for family in families.iter().skip(all.len()) {
        let range = ranges.of_family(family);
        let address = match draft.is_rehearsal() {
            // Nothing is given out, and the address of the whole range says so.
            true => range.map(|range| range.network()),
            false => range.and_then(|range| free_address(draft, range)),
        };
        match address {
            Some(address) => all.push(address.to_string()),
            None => errors.invalid("spec.clusterIPs", Value::Array(Vec::new()), "failed to allocate a serviceIP: range is full"),
        }
    }
    let spec = child(document, "spec");
    spec.insert("clusterIP".into(), all.first().cloned().unwrap_or_default().into());
    spec.insert("clusterIPs".into(), all.into());
}

fn check_address(draft: &Draft, ranges: &Ranges, key: &Key, address: &str, errors: &mut Errors) {
    let Ok(ip) = address.parse::<IpAddr>() else { return };
    let field = "spec.clusterIPs";
    let owner = draft.state.claimant(&address_claim(ip));
    let range = ranges.of_family(family_of(ip)).filter(|range| range.contains(&ip));
    if owner.is_some_and(|owner| owner != key) || (owner.is_none() && is_kept(draft, ip)) {
        errors.invalid(field, vec![address], format!("failed to allocate IP {address}: provided IP is already allocated"));
    } else if range.is_none() && owner.is_none() {
        let cause = format!("failed to allocate IP {address}: the provided network does not match the current range");
        errors.invalid(field, vec![address], cause);
    }
}

/// Whether somebody keeps an address with an object of their own.
fn is_kept(draft: &Draft, address: IpAddr) -> bool {
    let kept = draft.state.get(&Key::new(&IP_ADDRESSES, "", &address.to_string()));
    kept.is_some_and(|kept| !is_managed(&kept.document()))
}

/// How many addresses of a range can be given out: not the first, and of IPv4 not the last.
fn size(range: IpNet) -> u128 {
    match range {
        IpNet::V4(range) => (1u128 << (32 - range.prefix_len())).saturating_sub(2),
        IpNet::V6(range) => 1u128.checked_shl(u32::from(128 - range.prefix_len())).unwrap_or(u128::MAX).saturating_sub(1).min(1 << 64),
    }
}

/// The address at an offset from the beginning of a range.
pub(crate) fn address_at(range: IpNet, offset: u128) -> IpAddr {
    match range.network() {
        IpAddr::V4(network) => Ipv4Addr::from(u32::from(network).wrapping_add(offset as u32)).into(),
        IpAddr::V6(network) => Ipv6Addr::from(u128::from(network).wrapping_add(offset)).into(),
    }
}

fn free_address(draft: &Draft, range: IpNet) -> Option<IpAddr> {
    let size = size(range);
    let is_free = |address: &IpAddr| draft.state.claimant(&address_claim(*address)).is_none() && !is_kept(draft, *address);
    let random = std::iter::repeat_with(|| uuid::Uuid::new_v4().as_u128()).take(TRIES).filter(|_| size > 0);
    // The lowest addresses are left to those who ask for one by name.
    let reserved = (size / 16).clamp(16, 256).min(size / 2);
    let upper = random.map(|number| address_at(range, 1 + reserved + number % (size - reserved).max(1)));
    let chosen = upper.filter(|address| range.contains(address)).find(is_free);
    chosen.or_else(|| (1..=size.min(1 << 20)).rev().map(|offset| address_at(range, offset)).find(is_free))
}

fn node_ports(draft: &Draft, ranges: &Ranges, key: &Key, document: &mut Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = child(document, "spec");
    let wanted = has_node_ports(spec);
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
    let mut taken: Vec<(String, i64)> = ports
        .iter()
        .filter_map(|port| Some((text(port, "/protocol").to_owned(), port["nodePort"].as_i64().filter(|port| *port != 0)?)))
        .collect();
    let mut twins: Vec<(Value, String, i64)> = Vec::new();
    for (index, port) in ports.iter_mut().enumerate() {
        let protocol = text(port, "/protocol").to_owned();
        let field = format!("spec.ports[{index}].nodePort");
        let given = port["nodePort"].as_i64().unwrap_or(0);
        let is_free = |number: i64| draft.state.claimant(&node_port_claim(&protocol, number)).is_none_or(|owner| owner == key);
        let in_range = |number: i64| u16::try_from(number).is_ok_and(|number| ranges.node_ports.contains(&number));
        if given != 0 && !in_range(given) {
            let range = format!("{}-{}", ranges.node_ports.start(), ranges.node_ports.end());
            errors.invalid(field, given, format!("provided port is not in the valid range. The range of valid ports is {range}"));
        } else if given != 0 && !is_free(given) {
            errors.invalid(field, given, "provided port is already allocated");
        } else if given == 0 && wanted {
            let kept = old.and_then(|old| same_port(old, port)).filter(|number| !taken.contains(&(protocol.clone(), *number)));
            let free = |number: &i64| is_free(*number) && !taken.iter().any(|(_, taken)| taken == number);
            // One port that speaks two protocols is reached at one number.
            let twin = || twins.iter().find(|(number, other, _)| *number == port["port"] && *other != protocol).map(|(_, _, twin)| *twin);
            let chosen = kept.or_else(|| twin().filter(|number| is_free(*number))).or_else(|| choose_port(&ranges.node_ports, free));
            match chosen {
                Some(number) => {
                    twins.push((port["port"].clone(), protocol.clone(), number));
                    taken.push((protocol.clone(), number));
                    super::document::as_map(port).insert("nodePort".into(), number.into());
                }
                None => errors.invalid(field, 0, "failed to allocate a nodePort: range is full"),
            }
        }
    }
}

/// Gives a load balancer with local traffic the port at which nodes tell whether they have backends.
fn health_port(draft: &Draft, ranges: &Ranges, key: &Key, document: &mut Value, old: Option<&Value>, errors: &mut Errors) {
    let is_needed = text(document, "/spec/type") == "LoadBalancer" && text(document, "/spec/externalTrafficPolicy") == "Local";
    if !is_needed {
        return;
    }
    let own: Vec<i64> = list(document, "/spec/ports").iter().filter_map(|port| port["nodePort"].as_i64()).collect();
    let is_free = |number: i64| draft.state.claimant(&node_port_claim("TCP", number)).is_none_or(|owner| owner == key);
    let at = |document: &Value| document["spec"]["healthCheckNodePort"].as_i64().filter(|number| *number != 0);
    let field = "spec.healthCheckNodePort";
    match at(document) {
        Some(given) if !is_free(given) => {
            errors.invalid(
                field,
                given,
                format!("failed to allocate requested HealthCheck NodePort {given}: provided port is already allocated"),
            );
        }
        Some(_) => {}
        None => {
            let kept = old.and_then(at).filter(|number| is_free(*number));
            match kept.or_else(|| choose_port(&ranges.node_ports, |number| is_free(*number) && !own.contains(number))) {
                Some(number) => _ = child(document, "spec").insert("healthCheckNodePort".into(), number.into()),
                None => errors.invalid(field, 0, "failed to allocate a HealthCheck NodePort: range is full"),
            }
        }
    }
}

/// The node port that the old Service has for the same port.
fn same_port(old: &Value, port: &Value) -> Option<i64> {
    let same = |candidate: &&Value| candidate["port"] == port["port"] && candidate["protocol"] == port["protocol"];
    list(old, "/spec/ports").iter().find(same)?["nodePort"].as_i64().filter(|number| *number != 0)
}

fn choose_port(range: &RangeInclusive<u16>, is_free: impl Fn(&i64) -> bool) -> Option<i64> {
    let size = u128::from(range.end() - range.start()) + 1;
    // The lowest ports are left to those who ask for one by number.
    let reserved = if size < 32 { 0 } else { (size / 32).clamp(16, 128).min(size / 2) };
    let random = std::iter::repeat_with(|| uuid::Uuid::new_v4().as_u128()).take(TRIES);
    let upper = random.map(|number| i64::from(*range.start()) + (reserved + number % (size - reserved)) as i64);
    let chosen = upper.into_iter().find(|number| is_free(number));
    chosen.or_else(|| range.clone().rev().map(i64::from).find(|number| is_free(number)))
}
