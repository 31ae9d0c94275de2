//! Endpoints: the backends of a Service in one object, the older form.

use serde_json::Value;

use super::{Column, PLAIN, Resource, age, column, name, or_none};
use crate::server::document::{as_map, items_mut, list, text};
use crate::server::field::{Errors, PROTOCOLS};
use crate::server::name::{label, subdomain};

const COLUMNS: &[Column] = &[column("Name"), column("Endpoints"), column("Age")];

pub(crate) static ENDPOINTS: Resource = Resource {
    storage: 5,
    kind: "Endpoints",
    plural: "endpoints",
    singular: "endpoints",
    short_names: &["ep"],
    columns: COLUMNS,
    cells: |document| vec![name(document), or_none(&shown(document)), age(document)],
    default: |document| {
        for subset in items_mut(as_map(document), "subsets") {
            items_mut(subset, "ports").for_each(|port| crate::server::document::default(port, "protocol", "TCP"));
        }
    },
    validate,
    ..PLAIN
};

fn shown(document: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(document, "/subsets") {
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            let ports = list(subset, "/ports").iter().map(|port| format!("{ip}:{}", port["port"]));
            all.extend(ports);
        }
    }
    let more = all.len().saturating_sub(3);
    all.truncate(3);
    match more {
        0 => all.join(","),
        more => format!("{} + {more} more...", all.join(",")),
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    for (index, subset) in list(document, "/subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        if list(subset, "/addresses").is_empty() && list(subset, "/notReadyAddresses").is_empty() {
            errors.required(path.as_str(), "must specify `addresses` or `notReadyAddresses`");
        }
        for key in ["addresses", "notReadyAddresses"] {
            for (number, address) in list(subset, &format!("/{key}")).iter().enumerate() {
                validate_address(address, &format!("{path}.{key}[{number}]"), errors);
            }
        }
        let ports = list(subset, "/ports");
        for (number, port) in ports.iter().enumerate() {
            validate_port(port, ports.len() > 1, &format!("{path}.ports[{number}]"), errors);
        }
    }
}

fn validate_address(address: &Value, path: &str, errors: &mut Errors) {
    let ip = text(address, "/ip");
    errors.address(format!("{path}.ip"), ip);
    errors.name_if_any(format!("{path}.hostname"), text(address, "/hostname"), label);
    if let Some(node) = address["nodeName"].as_str() {
        errors.name(format!("{path}.nodeName"), node, subdomain);
    }
    errors.endpoint_address(format!("{path}.ip"), ip);
}

fn validate_port(port: &Value, needs_name: bool, path: &str, errors: &mut Errors) {
    match text(port, "/name") {
        "" if needs_name => errors.required(format!("{path}.name"), ""),
        name => errors.name_if_any(format!("{path}.name"), name, label),
    }
    errors.port(format!("{path}.port"), &port["port"]);
    errors.one_of(format!("{path}.protocol"), &port["protocol"], PROTOCOLS);
    errors.qualified_if_any(format!("{path}.appProtocol"), &port["appProtocol"]);
}
