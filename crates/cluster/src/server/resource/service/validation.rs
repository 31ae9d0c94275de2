//! What Services must not be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::server::document::{list, text, texts};
use crate::server::field::{Errors, PROTOCOLS};
use crate::server::name::{label, subdomain};
use crate::server::schema::as_original;

/// Where a list of source ranges can stand besides the spec.
const RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

fn is_headless(spec: &Value) -> bool {
    list(spec, "/clusterIPs") == [json!("None")] || (list(spec, "/clusterIPs").is_empty() && text(spec, "/clusterIP") == "None")
}

/// Objects to a Service. The order is the original's.
pub(super) fn validate(document: &Value, errors: &mut Errors) {
    let spec = &document["spec"];
    let kind = text(spec, "/type");
    if list(spec, "/ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    match kind {
        "ExternalName" => validate_external_name(spec, errors),
        "NodePort" | "LoadBalancer" if is_headless(spec) => {
            errors.invalid("spec.clusterIPs[0]", "None", format!("may not be set to 'None' for {kind} services"));
        }
        _ => {}
    }
    validate_ports(spec, errors);
    errors.labels("spec.selector", spec, "/selector");
    validate_affinity(spec, errors);
    if kind != "ExternalName" {
        validate_addresses(spec, errors);
    }
    validate_external_addresses(spec, errors);
    errors.one_of("spec.type", &spec["type"], &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    validate_unique_ports(spec, errors);
    validate_source_ranges(document, errors);
    validate_balancer(spec, errors);
    validate_traffic(spec, errors);
}

fn validate_external_name(spec: &Value, errors: &mut Errors) {
    if !text(spec, "/clusterIP").is_empty() || !list(spec, "/clusterIPs").is_empty() {
        errors.forbidden("spec.clusterIPs", "may not be set for ExternalName services");
    }
    for key in ["ipFamilies", "ipFamilyPolicy"].iter().filter(|key| !spec[**key].is_null()) {
        errors.forbidden(format!("spec.{key}"), "may not be set for ExternalName services");
    }
    let name = text(spec, "/externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.required("spec.externalName", ""),
        name => errors.name("spec.externalName", name, subdomain),
    }
}

fn validate_ports(spec: &Value, errors: &mut Errors) {
    let ports = list(spec, "/ports");
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        match text(port, "/name") {
            "" if ports.len() > 1 => errors.required(format!("{path}.name"), ""),
            "" => {}
            name => {
                errors.name(format!("{path}.name"), name, label);
                if !names.insert(name) {
                    errors.duplicate(format!("{path}.name"), name);
                }
            }
        }
        errors.port(format!("{path}.port"), &port["port"]);
        errors.one_of(format!("{path}.protocol"), &port["protocol"], PROTOCOLS);
        errors.port_or_name(format!("{path}.targetPort"), &port["targetPort"]);
        errors.qualified_if_any(format!("{path}.appProtocol"), &port["appProtocol"]);
    }
}

fn validate_affinity(spec: &Value, errors: &mut Errors) {
    errors.one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    let seconds = spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").and_then(Value::as_i64);
    if let Some(seconds) = seconds.filter(|seconds| !(1..=86_400).contains(seconds)) {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        errors.invalid(field, seconds, "must be greater than 0 and less than 86400");
    }
}

fn validate_addresses(spec: &Value, errors: &mut Errors) {
    let addresses = list(spec, "/clusterIPs");
    let first = text(spec, "/clusterIP");
    if let Some(listed) = addresses.first()
        && listed != first
    {
        let cause = if first.is_empty() { "must be empty when `clusterIP` is not specified" } else { "first value must match `clusterIP`" };
        errors.invalid("spec.clusterIPs", addresses.to_vec(), cause);
    }
    validate_families(spec, errors);
    let before = errors.0.len();
    for (index, address) in addresses.iter().enumerate() {
        match address.as_str().unwrap_or_default() {
            "None" if index == 0 && addresses.len() == 1 => {}
            "None" if index == 0 => errors.invalid("spec.clusterIPs", addresses.to_vec(), "'None' must be the first and only value"),
            address => errors.address(format!("spec.clusterIPs[{index}]"), address),
        }
    }
    if addresses.len() > 2 {
        errors.invalid("spec.clusterIPs", addresses.to_vec(), "may only hold up to 2 values");
    }
    if errors.0.len() == before {
        validate_pairs(spec, errors);
    }
}

fn validate_families(spec: &Value, errors: &mut Errors) {
    let families = list(spec, "/ipFamilies");
    for (index, family) in families.iter().enumerate() {
        errors.one_of(format!("spec.ipFamilies[{index}]"), family, &["IPv4", "IPv6"]);
        if families[..index].contains(family) {
            errors.duplicate(format!("spec.ipFamilies[{index}]"), family.clone());
        }
    }
    let policies = &["PreferDualStack", "RequireDualStack", "SingleStack"];
    errors.one_of("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], policies);
}

/// Addresses are of different families, and of the families that were asked for.
fn validate_pairs(spec: &Value, errors: &mut Errors) {
    let addresses: Vec<(&str, IpAddr)> =
        list(spec, "/clusterIPs").iter().filter_map(Value::as_str).filter_map(|text| Some((text, text.parse().ok()?))).collect();
    if let [(_, first), (_, second)] = addresses.as_slice()
        && first.is_ipv4() == second.is_ipv4()
    {
        let all = list(spec, "/clusterIPs").to_vec();
        errors.invalid("spec.clusterIPs", all, "may specify no more than one IP for each IP family");
    }
    for (index, ((text, address), family)) in addresses.iter().zip(list(spec, "/ipFamilies")).enumerate() {
        let own = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let other = if address.is_ipv4() { "IPv6" } else { "IPv4" };
        if family != own && family == other {
            let cause = format!("expected an {other} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(format!("spec.clusterIPs[{index}]"), *text, cause);
        }
    }
}

fn validate_external_addresses(spec: &Value, errors: &mut Errors) {
    for (index, address) in list(spec, "/externalIPs").iter().enumerate() {
        let (field, address) = (format!("spec.externalIPs[{index}]"), address.as_str().unwrap_or_default());
        let before = errors.0.len();
        errors.address(field.as_str(), address);
        if errors.0.len() == before {
            errors.endpoint_address(field, address);
        }
    }
}

/// A port is a number and a transport, at the Service and at the nodes.
fn validate_unique_ports(spec: &Value, errors: &mut Errors) {
    let ports = list(spec, "/ports");
    let node_port = |port: &Value| port["nodePort"].as_i64().filter(|port| *port != 0);
    if text(spec, "/type") == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| node_port(port).is_some()) {
            errors.forbidden(format!("spec.ports[{index}].nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut node_ports = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        if let Some(number) = node_port(port)
            && !node_ports.insert((text(port, "/protocol"), number))
        {
            errors.duplicate(format!("spec.ports[{index}].nodePort"), number);
        }
    }
    let mut numbers = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(port, "/protocol"), port["port"].as_i64().unwrap_or(0));
        if !numbers.insert((protocol, number)) {
            let shown = as_original("ServicePort", &json!({"protocol": protocol, "port": number}));
            errors.duplicate(format!("spec.ports[{index}]"), shown);
        }
    }
}

fn validate_source_ranges(document: &Value, errors: &mut Errors) {
    let is_balancer = text(document, "/spec/type") == "LoadBalancer";
    let ranges = list(document, "/spec/loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // The original writes this field with a capital letter.
        let field = "spec.LoadBalancerSourceRanges";
        if !is_balancer {
            errors.forbidden(field, FOR_BALANCERS);
        }
        for (index, range) in ranges.iter().enumerate() {
            errors.range(format!("{field}[{index}]"), range.as_str().unwrap_or_default().trim());
        }
        return;
    }
    let annotation = texts(document, "/metadata/annotations").find(|(key, _)| *key == RANGES_ANNOTATION);
    if let Some((key, ranges)) = annotation {
        let field = format!("metadata.annotations[{key}]");
        if !is_balancer {
            errors.forbidden(field.as_str(), FOR_BALANCERS);
        }
        for range in ranges.split(',').map(str::trim).filter(|_| !ranges.trim().is_empty()) {
            errors.range(field.as_str(), range);
        }
    }
}

fn validate_balancer(spec: &Value, errors: &mut Errors) {
    if text(spec, "/type") == "LoadBalancer" {
        return errors.qualified_if_any("spec.loadBalancerClass", &spec["loadBalancerClass"]);
    }
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"].iter().filter(|key| !spec[**key].is_null()) {
        errors.forbidden(format!("spec.{key}"), FOR_BALANCERS);
    }
}

fn validate_traffic(spec: &Value, errors: &mut Errors) {
    let kind = text(spec, "/type");
    let is_external = matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && !list(spec, "/externalIPs").is_empty());
    match text(spec, "/externalTrafficPolicy") {
        "" => {}
        policy if !is_external => {
            errors.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services");
        }
        _ => errors.one_of("spec.externalTrafficPolicy", &spec["externalTrafficPolicy"], &["Cluster", "Local"]),
    }
    let needs_check = kind == "LoadBalancer" && text(spec, "/externalTrafficPolicy") == "Local";
    if let Some(port) = spec["healthCheckNodePort"].as_i64().filter(|port| *port != 0) {
        match needs_check {
            true => errors.port("spec.healthCheckNodePort", &spec["healthCheckNodePort"]),
            false => {
                let cause = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
                errors.invalid("spec.healthCheckNodePort", port, cause);
            }
        }
    }
    errors.one_of("spec.internalTrafficPolicy", &spec["internalTrafficPolicy"], &["Cluster", "Local"]);
    let distributions = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    errors.one_of("spec.trafficDistribution", &spec["trafficDistribution"], distributions);
}

/// Says that one family is not two, once nothing else is wrong. A Service that exists loses its second family instead.
pub(super) fn validate_new(document: &Value, errors: &mut Errors) {
    if !errors.0.is_empty() || text(document, "/spec/ipFamilyPolicy") != "SingleStack" {
        return;
    }
    for (path, what) in [("/spec/clusterIPs", "cluster IPs"), ("/spec/ipFamilies", "IP families")] {
        if list(document, path).len() == 2 {
            let cause = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.invalid("spec.ipFamilyPolicy", "SingleStack", cause);
        }
    }
}

pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let is_kept = |document: &Value| text(document, "/spec/type") != "ExternalName" && !text(document, "/spec/clusterIP").is_empty();
    if is_kept(old) && is_kept(new) && new["spec"]["clusterIP"] != old["spec"]["clusterIP"] {
        errors.invalid("spec.clusterIPs[0]", list(new, "/spec/clusterIPs").to_vec(), "may not change once set");
    }
}
