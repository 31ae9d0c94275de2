//! EndpointSlices: the backends of a Service, a hundred at a time.

use serde_json::{Value, json};

use super::endpoints::validate_address;
use super::{Column, PLAIN, Resource, age, column, name, or_none};
use crate::server::document::{as_map, default, items_mut, list, text};
use crate::server::field::Errors;

const COLUMNS: &[Column] = &[column("Name"), column("AddressType"), column("Ports"), column("Endpoints"), column("Age")];

/// The most backends and ports of one slice.
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;

pub(crate) static ENDPOINT_SLICES: Resource = Resource {
    storage: 10,
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    has_generation: true,
    columns: COLUMNS,
    cells,
    default: |document| {
        let map = as_map(document);
        // The original has the list always, if only as null.
        map.entry("endpoints").or_insert(Value::Null);
        if map.get("ports").is_none_or(Value::is_null) {
            map.insert("ports".into(), Value::Null);
        }
        items_mut(map, "endpoints").for_each(|endpoint| default(endpoint, "conditions", json!({})));
        for port in items_mut(map, "ports") {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
    },
    validate,
    validate_update: |new, old, errors| {
        if new["addressType"] != old["addressType"] {
            errors.invalid("addressType", new["addressType"].clone(), "field is immutable");
        }
    },
    ..PLAIN
};

fn cells(document: &Value) -> Vec<Value> {
    let addresses: Vec<&str> =
        list(document, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses")).filter_map(Value::as_str).collect();
    let ports: Vec<String> = list(document, "/ports").iter().map(|port| port["port"].to_string()).collect();
    let shown = |all: &[String]| match all.len() {
        0 => String::new(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    };
    let addresses: Vec<String> = addresses.into_iter().map(str::to_owned).collect();
    let unset = |text: String| if text.is_empty() { json!("<unset>") } else { text.into() };
    vec![name(document), text(document, "/addressType").into(), unset(shown(&ports)), or_unset(&shown(&addresses)), age(document)]
}

fn or_unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { or_none(text) }
}

fn validate(document: &Value, errors: &mut Errors) {
    match document["addressType"].is_null() {
        true => errors.required("addressType", ""),
        false => errors.one_of("addressType", &document["addressType"], &["FQDN", "IPv4", "IPv6"]),
    }
    let (endpoints, ports) = (list(document, "/endpoints"), list(document, "/ports"));
    if endpoints.len() > MOST_ENDPOINTS {
        errors.too_many("endpoints", endpoints.len(), MOST_ENDPOINTS);
    }
    if ports.len() > MOST_PORTS {
        errors.too_many("ports", ports.len(), MOST_PORTS);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(document, endpoint, &format!("endpoints[{index}]"), errors);
    }
    let mut names = std::collections::BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        if !names.insert(text(port, "/name")) {
            errors.duplicate(format!("ports[{index}].name"), text(port, "/name"));
        }
        errors.one_of(format!("ports[{index}].protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

fn validate_endpoint(document: &Value, endpoint: &Value, path: &str, errors: &mut Errors) {
    let addresses = list(endpoint, "/addresses");
    if addresses.is_empty() {
        errors.required(format!("{path}.addresses"), "must contain at least 1 address");
    }
    if addresses.len() > 100 {
        errors.too_many(format!("{path}.addresses"), addresses.len(), 100);
    }
    for (index, address) in addresses.iter().enumerate() {
        let (text, field) = (address.as_str().unwrap_or_default(), format!("{path}.addresses[{index}]"));
        match (document["addressType"].as_str(), text.parse::<std::net::IpAddr>()) {
            (Some("IPv4"), Ok(std::net::IpAddr::V6(_))) => errors.invalid(field, text, "must be an IPv4 address"),
            (Some("IPv6"), Ok(std::net::IpAddr::V4(_))) => errors.invalid(field, text, "must be an IPv6 address"),
            (Some("IPv4" | "IPv6"), _) => validate_address(text, field, errors),
            _ => {}
        }
    }
}
