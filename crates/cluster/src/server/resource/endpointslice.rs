//! EndpointSlices: the backends of a Service, a hundred at a time.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Column, PLAIN, Resource, age, column, name, or_none};
use crate::server::document::{as_map, default, items_mut, list, text};
use crate::server::field::{Errors, PROTOCOLS};
use crate::server::name::{NameRule, label, label_value, subdomain};

const COLUMNS: &[Column] = &[column("Name"), column("AddressType"), column("Ports"), column("Endpoints"), column("Age")];

/// The most backends and ports of one slice, and addresses and hints of a backend.
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ADDRESSES: usize = 100;
const MOST_HINTS: usize = 8;

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
            errors.invalid("addressType", Value::Null, "field is immutable");
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

/// Objects to a slice. What the original checks by its tables comes last there.
fn validate(document: &Value, errors: &mut Errors) {
    let (endpoints, ports) = (list(document, "/endpoints"), list(document, "/ports"));
    if ports.len() > MOST_PORTS {
        errors.too_many("ports", ports.len(), MOST_PORTS);
    } else {
        validate_ports(ports, errors);
    }
    if endpoints.len() > MOST_ENDPOINTS {
        errors.too_many("endpoints", endpoints.len(), MOST_ENDPOINTS);
    } else {
        for (index, endpoint) in endpoints.iter().enumerate() {
            validate_endpoint(document, endpoint, &format!("endpoints[{index}]"), errors);
        }
    }
    match text(document, "/addressType") {
        "" => errors.required("addressType", ""),
        _ => errors.one_of("addressType", &document["addressType"], &["FQDN", "IPv4", "IPv6"]),
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        match list(endpoint, "/addresses").len() {
            0 => errors.required(format!("endpoints[{index}].addresses"), ""),
            many if many > MOST_ADDRESSES => errors.too_many(format!("endpoints[{index}].addresses"), many, MOST_ADDRESSES),
            _ => {}
        }
    }
}

fn validate_ports(ports: &[Value], errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (path, name) = (format!("ports[{index}]"), text(port, "/name"));
        errors.name_if_any(format!("{path}.name"), name, label);
        if !names.insert(name) {
            errors.duplicate(format!("{path}.name"), name);
        }
        errors.one_of(format!("{path}.protocol"), &port["protocol"], PROTOCOLS);
        errors.qualified_if_any(format!("{path}.appProtocol"), &port["appProtocol"]);
    }
}

fn validate_endpoint(document: &Value, endpoint: &Value, path: &str, errors: &mut Errors) {
    for (index, address) in list(endpoint, "/addresses").iter().enumerate() {
        let (address, field) = (address.as_str().unwrap_or_default(), format!("{path}.addresses[{index}]"));
        match text(document, "/addressType") {
            "FQDN" => errors.name(field, address, subdomain),
            family @ ("IPv4" | "IPv6") => validate_address(address, family, path, field, errors),
            _ => {}
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        errors.name(format!("{path}.nodeName"), node, subdomain);
    }
    if let Some(name) = endpoint["hostname"].as_str() {
        errors.name(format!("{path}.hostname"), name, label);
    }
    for (kind, rule) in [("forZones", label_value as NameRule), ("forNodes", subdomain)] {
        validate_hints(&endpoint["hints"][kind], &format!("{path}.hints.{kind}"), rule, errors);
    }
}

fn validate_address(address: &str, family: &str, path: &str, field: String, errors: &mut Errors) {
    let before = errors.0.len();
    errors.address(field.as_str(), address);
    if errors.0.len() > before {
        return;
    }
    if address.contains(':') != (family == "IPv6") {
        errors.invalid(format!("{path}.addresses"), address, format!("must be an {family} address"));
    }
    errors.endpoint_address(field, address);
}

fn validate_hints(hints: &Value, path: &str, rule: NameRule, errors: &mut Errors) {
    let hints = hints.as_array().map(Vec::as_slice).unwrap_or_default();
    if hints.len() > MOST_HINTS {
        return errors.too_many(path, hints.len(), MOST_HINTS);
    }
    let mut names = BTreeSet::new();
    for (index, hint) in hints.iter().enumerate() {
        let (field, name) = (format!("{path}[{index}].name"), text(hint, "/name"));
        if !names.insert(name) {
            errors.duplicate(field.as_str(), name);
        }
        errors.name(field, name, rule);
    }
}
