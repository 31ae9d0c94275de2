//! Services: one address in front of many pods. Addresses and node ports are given out when the object is stored.

mod validation;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::{Column, PLAIN, Resource, age, column, name, or_none, wide};
use crate::server::document::{child, default, items_mut, list, text, texts};
use crate::server::name::label;

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
    name_rule: label,
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
    admit: |document| {
        complete_addresses(child(document, "spec"));
        Ok(())
    },
    validate: validation::validate,
    validate_new: validation::validate_new,
    validate_update: validation::validate_update,
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
    } else if spec.get("sessionAffinity") == Some(&json!("None")) {
        spec.shift_remove("sessionAffinityConfig");
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

/// Who knows of one address only means a list of one.
fn complete_addresses(spec: &mut Map<String, Value>) {
    let first = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_listed = spec.get("clusterIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !first.is_empty() && !is_listed {
        spec.insert("clusterIPs".into(), json!([first]));
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
