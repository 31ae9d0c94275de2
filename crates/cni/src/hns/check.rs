//! CHECK: what HNS has, compared with what ADD promised. Every difference is named.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::load_balancer::ProtocolType;
use hcn::policy::Policy;
use hcn::policy::endpoint::EndpointPolicyType;
use ipnet::IpNet;
use serde_json::{Map, Value};

use super::flow::{Mode, Site, endpoints_of};
use super::namespace::Target;
use super::{Hns, dns, namespace, nic, version_one};
use crate::error::{Error, Result};
use crate::result::{AddResult, Interface, IpConfig};

/// Fails with all that is different.
pub(super) fn compare(hns: &Hns, mode: &dyn Mode, site: &Site<'_>, promised: &AddResult, version_one: bool) -> Result<()> {
    let differences = match endpoints_of(mode, &*site.hcn, site.call)?.first() {
        None => vec!["it is gone".to_owned()],
        Some(found) => {
            let mut differences = differences(mode, site, promised, found)?;
            match version_one {
                true => differences.extend(version_one::difference(site, found)?),
                false => differences.extend(place(hns, mode, site, promised, found)?),
            }
            differences
        }
    };
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Error::internal(format!("the endpoint {:?} is not as ADD promised: {}", site.name, differences.join("; ")))
            .details("DEL and ADD the container again, or undo the change")),
    }
}

fn differences(mode: &dyn Mode, site: &Site<'_>, promised: &AddResult, found: &Endpoint) -> Result<Vec<String>> {
    let mut differences = Vec::new();
    if found.network != site.network.id {
        differences.push(format!("it is on the network {}, not on {:?} ({})", found.network, site.network.name, site.network.id));
    }
    let now = mode.report(site, found);
    let interface = now.interfaces.first().cloned().unwrap_or_default();
    let (index, known) = match promised.interfaces.iter().position(|known| known.name == interface.name) {
        Some(index) => (index as i64, promised.interfaces[index].clone()),
        // Results of old versions name none.
        None => {
            let missing = (!promised.interfaces.is_empty()).then(|| format!("prevResult has no interface {:?}", interface.name));
            differences.extend(missing);
            (0, interface.clone())
        }
    };
    differences.extend(mac(&known, &interface));
    let theirs: Vec<&IpConfig> = promised.ips.iter().filter(|ip| ip.interface.is_none_or(|of| of == index)).collect();
    differences.extend(addresses(&theirs, &now));
    for route in promised.routes.iter().filter(|route| route.dst.prefix_len() > 0) {
        if !now.routes.iter().any(|other| other.dst == route.dst && (route.gw.is_none() || route.gw == other.gw)) {
            differences.push(format!("the route to {} is missing", route.dst));
        }
    }
    differences.extend(settings(mode, site, promised, found)?);
    Ok(differences)
}

fn mac(promised: &Interface, now: &Interface) -> Option<String> {
    let differs = !promised.mac.is_empty() && !is_same_mac(&promised.mac, &now.mac);
    differs.then(|| format!("its MAC address is {}, not {}", now.mac, promised.mac))
}

/// Whether two spellings are of one hardware address.
pub(super) fn is_same_mac(one: &str, other: &str) -> bool {
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect() };
    digits(one) == digits(other)
}

fn addresses(promised: &[&IpConfig], now: &AddResult) -> Vec<String> {
    let mut differences = Vec::new();
    for ip in promised {
        match now.ips.iter().find(|other| other.address == ip.address) {
            None => differences.push(format!("it has no address {}", ip.address)),
            Some(other) if other.gateway != ip.gateway => {
                differences.push(format!("the gateway of {} is {}, not {}", ip.address, show(other.gateway), show(ip.gateway)));
            }
            Some(_) => {}
        }
    }
    let known: BTreeSet<IpNet> = promised.iter().map(|ip| ip.address).collect();
    let more = now.ips.iter().filter(|ip| !known.contains(&ip.address));
    differences.extend(more.map(|ip| format!("it has the address {}, which was not promised", ip.address)));
    differences
}

fn show(gateway: Option<IpAddr>) -> String {
    gateway.map_or("none".to_owned(), |gateway| gateway.to_string())
}

/// What follows from the configuration and the addresses: names and policies. More policies than promised are others' affair.
fn settings(mode: &dyn Mode, site: &Site<'_>, promised: &AddResult, found: &Endpoint) -> Result<Vec<String>> {
    let lease = (!site.call.config.ipam_type()?.is_empty()).then_some(promised);
    let wanted = mode.endpoint(site, lease)?;
    let (mut wanted_dns, dns) = (dns::from_hcn(&wanted.dns), dns::from_hcn(&found.dns));
    // In results of schema 1 a list of nothing has one empty element.
    for list in [&mut wanted_dns.nameservers, &mut wanted_dns.search] {
        list.retain(|text| !text.is_empty());
    }
    let mut differences = Vec::new();
    if !wanted_dns.is_empty() && wanted_dns != dns {
        differences.push(format!("its DNS settings are {dns:?}, not {wanted_dns:?}"));
    }
    for policy in &wanted.policies {
        if !found.policies.iter().any(|other| is_same_policy(policy, other)) {
            let kind = policy.policy_type.as_str().unwrap_or_default();
            differences.push(format!("its policy {kind} {} is missing", policy.settings));
        }
    }
    Ok(differences)
}

/// Where it is: in its namespace, with its NIC.
fn place(hns: &Hns, mode: &dyn Mode, site: &Site<'_>, promised: &AddResult, found: &Endpoint) -> Result<Vec<String>> {
    let target = Target::read(&site.call.environment)?;
    let namespace = namespace::find(&*site.hcn, &target)?;
    let Some(namespace) = namespace else { return Ok(vec![format!("its namespace {} is gone", site.call.environment.netns)]) };
    if found.namespace != namespace.id {
        let is = if found.namespace.is_nil() { "in no namespace".to_owned() } else { format!("in the namespace {}", found.namespace) };
        return Ok(vec![format!("it is {is}, not in {}", namespace.id)]);
    }
    match &target {
        Target::Path(path) if hns.looks_at_nics => {
            let now = mode.report(site, found);
            let mac = now.interfaces.first().map(|interface| interface.mac.clone()).unwrap_or_default();
            let known: Vec<IpNet> = promised.ips.iter().map(|ip| ip.address).collect();
            let ips: Vec<&IpConfig> = now.ips.iter().filter(|ip| known.contains(&ip.address)).collect();
            Ok(nic::differences(path, &site.call.environment.ifname, &mac, &ips))
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether HNS has a policy, in whatever spelling it keeps it.
fn is_same_policy(wanted: &Policy, found: &Policy) -> bool {
    let kind = |policy: &Policy| policy.kind::<EndpointPolicyType>().ok();
    kind(wanted) == kind(found) && has_all(&wanted.settings, &found.settings)
}

fn has_all(wanted: &Value, found: &Value) -> bool {
    let empty = Map::new();
    let found = found.as_object().unwrap_or(&empty);
    let Some(wanted) = wanted.as_object() else { return wanted.is_null() };
    wanted.iter().all(|(key, value)| {
        let other = found.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map_or(&Value::Null, |(_, value)| value);
        is_same(key, value, other)
    })
}

fn is_same(key: &str, wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        // What was left open HNS has chosen, and what is empty it leaves out.
        (wanted, Value::Null) => is_empty(wanted),
        (Value::Number(port), _) if key.eq_ignore_ascii_case("ExternalPort") && port.as_u64() == Some(0) => true,
        (Value::String(name), Value::Number(number)) | (Value::Number(number), Value::String(name)) => {
            let named = ProtocolType::from_name(name).number().filter(|_| key.eq_ignore_ascii_case("Protocol"));
            number.as_u64().is_some_and(|number| named == Some(number) || name.parse() == Ok(number))
        }
        (Value::String(one), Value::String(other)) => is_same_text(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(key, one, other))
        }
        (Value::Object(_), Value::Object(_)) => has_all(wanted, found),
        (one, other) => one == other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::Bool(true) => false,
    }
}

fn is_same_text(one: &str, other: &str) -> bool {
    let prefixes = || Some(one.parse::<IpNet>().ok()?.trunc() == other.parse::<IpNet>().ok()?.trunc());
    let addresses = || Some(one.parse::<IpAddr>().ok()? == other.parse::<IpAddr>().ok()?);
    one.eq_ignore_ascii_case(other) || prefixes().or_else(addresses).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_are_the_same_in_any_spelling() {
        for (wanted, found, same) in [
            (json!({"Protocol": 6, "VIP": ""}), json!({"Protocol": 6}), true),
            (json!({"protocol": "tcp"}), json!({"Protocol": 6}), true),
            (json!({"Exceptions": ["10.0.0.0/8"]}), json!({"Exceptions": ["10.0.0.0/8"], "Flags": 1}), true),
            (json!({"Exceptions": ["10.0.0.0/8"]}), json!({"Exceptions": ["11.0.0.0/8"]}), false),
            (json!({"Exceptions": ["10.0.0.0/8"]}), json!({}), false),
            (json!({"ExternalPort": 0}), json!({"ExternalPort": 49152}), true),
            (json!({"ExternalPort": 80}), json!({"ExternalPort": 81}), false),
            (json!({"A": {"B": "fd00::0:1"}}), json!({"A": {"B": "fd00::1"}}), true),
            (json!({"NeedEncap": true}), json!({}), false),
        ] {
            assert_eq!(has_all(&wanted, &found), same, "{wanted} {found}");
        }
    }

    #[test]
    fn hardware_addresses_are_the_same_in_any_spelling() {
        assert!(is_same_mac("0E-2A-0a-f4-01-05", "0e:2a:0a:f4:01:05"));
        assert!(!is_same_mac("0E-2A-0a-f4-01-05", "0e:2a:0a:f4:01:06"));
    }
}
