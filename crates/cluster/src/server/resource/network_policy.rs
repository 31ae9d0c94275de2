//! NetworkPolicies: which traffic pods may have.

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{child, default, items_mut, list, text};
use crate::server::field::Errors;
use crate::server::selector::LabelSelector;

const COLUMNS: &[Column] = &[column("Name"), column("Pod-Selector"), column("Age")];

pub(crate) static NETWORK_POLICIES: Resource = Resource {
    storage: 12,
    group: "networking.k8s.io",
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    singular: "networkpolicy",
    short_names: &["netpol"],
    has_generation: true,
    columns: COLUMNS,
    cells: |document| vec![name(document), LabelSelector::of_document(&document["spec"]["podSelector"]).to_string().into(), age(document)],
    default: complete,
    validate,
    ..PLAIN
};

fn complete(document: &mut Value) {
    let has_egress = document.pointer("/spec/egress").is_some_and(|egress| !egress.is_null());
    let spec = child(document, "spec");
    default(spec, "policyTypes", if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            items_mut(rule, "ports").for_each(|port| default(port, "protocol", "TCP"));
        }
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    LabelSelector::validate(&document["spec"]["podSelector"], "spec.podSelector", errors);
    for (index, kind) in list(document, "/spec/policyTypes").iter().enumerate() {
        errors.one_of(format!("spec.policyTypes[{index}]"), kind, &["Ingress", "Egress"]);
    }
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(document, &format!("/spec/{direction}")).iter().enumerate() {
            let path = format!("spec.{direction}[{index}]");
            validate_ports(rule, &path, errors);
            for (number, peer) in list(rule, &format!("/{peers}")).iter().enumerate() {
                validate_peer(peer, &format!("{path}.{peers}[{number}]"), errors);
            }
        }
    }
}

fn validate_ports(rule: &Value, path: &str, errors: &mut Errors) {
    for (index, port) in list(rule, "/ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        errors.one_of(format!("{path}.protocol"), &port["protocol"], &["TCP", "UDP", "SCTP"]);
        if let Some(number) = port["port"].as_i64().filter(|number| !(1..=65_535).contains(number)) {
            errors.invalid(format!("{path}.port"), number, "must be between 1 and 65535, inclusive");
        }
        if let (Some(end), Some(first)) = (port["endPort"].as_i64(), port["port"].as_i64())
            && end < first
        {
            errors.invalid(format!("{path}.endPort"), end, "must be greater than or equal to `port`");
        }
    }
}

fn validate_peer(peer: &Value, path: &str, errors: &mut Errors) {
    let has = |key: &str| !peer[key].is_null();
    if !has("podSelector") && !has("namespaceSelector") && !has("ipBlock") {
        errors.required(path, "must specify a peer");
    }
    if has("ipBlock") && (has("podSelector") || has("namespaceSelector")) {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
    LabelSelector::validate(&peer["podSelector"], &format!("{path}.podSelector"), errors);
    LabelSelector::validate(&peer["namespaceSelector"], &format!("{path}.namespaceSelector"), errors);
    if !has("ipBlock") {
        return;
    }
    let cidr = text(peer, "/ipBlock/cidr");
    let Ok(block) = cidr.parse::<IpNet>() else {
        let cause = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return errors.invalid(format!("{path}.ipBlock.cidr"), cidr, cause);
    };
    for (index, except) in list(peer, "/ipBlock/except").iter().enumerate() {
        let inside =
            except.as_str().and_then(|text| text.parse::<IpNet>().ok()).is_some_and(|except| block.contains(&except) && block != except);
        if !inside {
            errors.invalid(format!("{path}.ipBlock.except[{index}]"), except.clone(), "must be a strict subset of `cidr`");
        }
    }
}
