//! Endpoints: the backends of a Service in one object, the older form.

use std::net::IpAddr;

use serde_json::Value;

use super::pod_spec::port_number;
use super::{Column, PLAIN, Resource, age, column, name, or_none};
use crate::server::document::{as_map, items_mut, list, text};
use crate::server::field::Errors;

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
        for key in ["addresses", "notReadyAddresses"] {
            for (number, address) in list(subset, &format!("/{key}")).iter().enumerate() {
                validate_address(text(address, "/ip"), format!("{path}.{key}[{number}].ip"), errors);
            }
        }
        for (number, port) in list(subset, "/ports").iter().enumerate() {
            port_number(port["port"].as_i64().unwrap_or(0), format!("{path}.ports[{number}].port"), errors);
            errors.one_of(format!("{path}.ports[{number}].protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
        }
    }
}

/// Backends are elsewhere: an address of the node's own, or of a group, is none.
pub(super) fn validate_address(address: &str, field: String, errors: &mut Errors) {
    match address.parse::<IpAddr>() {
        Err(_) => errors.invalid(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        Ok(ip) if ip.is_unspecified() => errors.invalid(field, address, "may not be unspecified (0.0.0.0 or ::)"),
        Ok(ip) if ip.is_loopback() => errors.invalid(field, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        Ok(ip) if ip.is_multicast() => errors.invalid(field, address, "may not be in the multicast range (224.0.0.0/4, ff00::/8)"),
        Ok(_) => {}
    }
}
