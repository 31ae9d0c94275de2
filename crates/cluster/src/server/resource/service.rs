//! Services: one address in front of many pods. Addresses and node ports are given out when the object is stored.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::pod_spec::port_number;
use super::{Column, PLAIN, Resource, age, column, name, or_none, wide};
use crate::server::document::{child, default, items_mut, list, text, texts};
use crate::server::field::Errors;
use crate::server::name::{label, label_1035, subdomain};

const COLUMNS: &[Column] =
    &[column("Name"), column("Type"), column("Cluster-IP"), column("External-IP"), column("Port(s)"), column("Age"), wide("Selector")];

pub(crate) static SERVICES: Resource = Resource {
    storage: 4,
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    has_status: true,
    name_rule: label_1035,
    columns: COLUMNS,
    cells,
    field_names: &["spec.clusterIP", "spec.type"],
    fields: |document| {
        let at = |path: &str| text(document, path).to_owned();
        vec![("spec.clusterIP", at("/spec/clusterIP")), ("spec.type", at("/spec/type"))]
    },
    claims,
    default: |document| complete(child(document, "spec")),
    first_status: |_| json!({"loadBalancer": {}}),
    validate,
    validate_update,
    ..PLAIN
};

/// The claim on an address.
pub(crate) fn address_claim(address: IpAddr) -> String {
    format!("address {address}")
}

/// The claim on a node port. Protocols have ports of their own.
pub(crate) fn node_port_claim(protocol: &str, port: i64) -> String {
    format!("node port {protocol} {port}")
}

fn claims(document: &Value) -> Vec<String> {
    let addresses = list(document, "/spec/clusterIPs").iter().filter_map(|address| address.as_str()?.parse().ok());
    let mut claims: BTreeSet<String> = addresses.map(address_claim).collect();
    for port in list(document, "/spec/ports") {
        if let Some(number) = port["nodePort"].as_i64().filter(|number| *number != 0) {
            claims.insert(node_port_claim(text(port, "/protocol"), number));
        }
    }
    if let Some(number) = document["spec"]["healthCheckNodePort"].as_i64().filter(|number| *number != 0) {
        claims.insert(node_port_claim("TCP", number));
    }
    claims.into_iter().collect()
}

/// Whether nodes answer for it too.
pub(crate) fn has_node_ports(spec: &Map<String, Value>) -> bool {
    match spec.get("type").and_then(Value::as_str) {
        Some("NodePort") => true,
        Some("LoadBalancer") => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

fn complete(spec: &mut Map<String, Value>) {
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if spec.get("sessionAffinity") == Some(&json!("ClientIP")) {
        default(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
    }
    for port in items_mut(spec, "ports") {
        default(port, "protocol", "TCP");
        let target = port.get("port").cloned().unwrap_or_default();
        default(port, "targetPort", target);
    }
    if kind != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    let spec = &document["spec"];
    errors.one_of("spec.type", &spec["type"], &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    errors.one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    errors.one_of("spec.externalTrafficPolicy", &spec["externalTrafficPolicy"], &["Cluster", "Local"]);
    errors.one_of("spec.internalTrafficPolicy", &spec["internalTrafficPolicy"], &["Cluster", "Local"]);
    for (index, family) in list(spec, "/ipFamilies").iter().enumerate() {
        errors.one_of(format!("spec.ipFamilies[{index}]"), family, &["IPv4", "IPv6"]);
        if list(spec, "/ipFamilies")[..index].contains(family) {
            errors.duplicate(format!("spec.ipFamilies[{index}]"), family.clone());
        }
    }
    errors.one_of("spec.trafficDistribution", &spec["trafficDistribution"], &["PreferClose", "PreferSameNode", "PreferSameZone"]);
    let is_headless = text(spec, "/clusterIP") == "None";
    match text(spec, "/type") {
        "ExternalName" => validate_external_name(spec, errors),
        _ if !is_headless && list(spec, "/ports").is_empty() => errors.required("spec.ports", ""),
        "NodePort" | "LoadBalancer" if is_headless => {
            errors.invalid("spec.clusterIPs[0]", "None", format!("may not be set to 'None' for {} services", text(spec, "/type")));
        }
        _ => {}
    }
    validate_addresses(spec, errors);
    validate_ports(spec, errors);
    let seconds = spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").and_then(Value::as_i64);
    if let Some(seconds) = seconds.filter(|seconds| !(1..=86_400).contains(seconds)) {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        errors.invalid(field, seconds, "must be greater than 0 and less than 86400");
    }
}

fn validate_external_name(spec: &Value, errors: &mut Errors) {
    let name = text(spec, "/externalName").trim_end_matches('.');
    match subdomain(name) {
        _ if name.is_empty() => errors.required("spec.externalName", ""),
        Some(cause) => errors.invalid("spec.externalName", name, cause),
        None => {}
    }
    if !text(spec, "/clusterIP").is_empty() {
        errors.forbidden("spec.clusterIPs", "may not be set for ExternalName services");
    }
}

fn validate_addresses(spec: &Value, errors: &mut Errors) {
    let addresses = list(spec, "/clusterIPs");
    if let Some(first) = addresses.first()
        && *first != spec["clusterIP"]
    {
        errors.invalid("spec.clusterIPs", Value::from(addresses.to_vec()), "first value must match `clusterIP`");
    }
    for (index, address) in addresses.iter().enumerate() {
        if address != "None" && address.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
            let field = format!("spec.clusterIPs[{index}]");
            errors.invalid(field, address.clone(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }
    for (index, address) in list(spec, "/externalIPs").iter().enumerate() {
        let usable =
            address.as_str().and_then(|text| text.parse::<IpAddr>().ok()).is_some_and(|ip| !ip.is_loopback() && !ip.is_unspecified());
        if !usable {
            let field = format!("spec.externalIPs[{index}]");
            errors.invalid(field, address.clone(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }
}

fn validate_ports(spec: &Value, errors: &mut Errors) {
    let ports = list(spec, "/ports");
    let (mut names, mut numbers, mut node_ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let (name, protocol) = (text(port, "/name"), text(port, "/protocol"));
        match label(name) {
            _ if name.is_empty() && ports.len() > 1 => errors.required(format!("{path}.name"), ""),
            Some(cause) if !name.is_empty() => errors.invalid(format!("{path}.name"), name, cause),
            _ if !name.is_empty() && !names.insert(name) => errors.duplicate(format!("{path}.name"), name),
            _ => {}
        }
        errors.one_of(format!("{path}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
        let number = port["port"].as_i64().unwrap_or(0);
        port_number(number, format!("{path}.port"), errors);
        if !numbers.insert((protocol, number)) {
            errors.duplicate(path.clone(), json!({"port": number, "protocol": protocol}));
        }
        if let Some(target) = port["targetPort"].as_i64() {
            port_number(target, format!("{path}.targetPort"), errors);
        }
        let node_port = port["nodePort"].as_i64().unwrap_or(0);
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.duplicate(format!("{path}.nodePort"), node_port);
        }
        if node_port != 0 && matches!(text(spec, "/type"), "ClusterIP" | "ExternalName") {
            errors.forbidden(format!("{path}.nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let is_kept = |document: &Value| text(document, "/spec/type") != "ExternalName" && !text(document, "/spec/clusterIP").is_empty();
    if is_kept(old) && is_kept(new) && new["spec"]["clusterIP"] != old["spec"]["clusterIP"] {
        errors.invalid("spec.clusterIPs[0]", Value::from(list(new, "/spec/clusterIPs").to_vec()), "may not change once set");
    }
}

fn cells(document: &Value) -> Vec<Value> {
    let selector: Vec<String> = texts(document, "/spec/selector").map(|(key, value)| format!("{key}={value}")).collect();
    vec![
        name(document),
        text(document, "/spec/type").into(),
        or_none(text(document, "/spec/clusterIP")),
        external(document),
        or_none(&ports(document)),
        age(document),
        or_none(&selector.join(",")),
    ]
}

fn external(document: &Value) -> Value {
    let ingress = list(document, "/status/loadBalancer/ingress").iter();
    let balanced = ingress.map(|ingress| [text(ingress, "/ip"), text(ingress, "/hostname")].concat());
    let own = list(document, "/spec/externalIPs").iter().filter_map(|address| address.as_str().map(str::to_owned));
    let all: Vec<String> = balanced.chain(own).collect();
    match text(document, "/spec/type") {
        "ExternalName" => text(document, "/spec/externalName").into(),
        "LoadBalancer" if all.is_empty() => "<pending>".into(),
        _ => or_none(&all.join(",")),
    }
}

fn ports(document: &Value) -> String {
    let shown = list(document, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (port["port"].as_i64().unwrap_or_default(), text(port, "/protocol"));
        match port["nodePort"].as_i64().filter(|port| *port != 0) {
            Some(node_port) => format!("{number}:{node_port}/{protocol}"),
            None => format!("{number}/{protocol}"),
        }
    });
    shown.collect::<Vec<_>>().join(",")
}
