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
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(document, &format!("/spec/{direction}")).iter().enumerate() {
            let path = format!("spec.{direction}[{index}]");
            validate_ports(rule, &path, errors);
            for (number, peer) in list(rule, &format!("/{peers}")).iter().enumerate() {
                validate_peer(peer, &format!("{path}.{peers}[{number}]"), errors);
            }
        }
    }
    validate_types(list(document, "/spec/policyTypes"), errors);
}

fn validate_types(types: &[Value], errors: &mut Errors) {
    if types.len() > 2 {
        return errors.invalid("spec.policyTypes", types.to_vec(), "may not specify more than two policyTypes");
    }
    for (index, kind) in types.iter().enumerate() {
        errors.one_of(format!("spec.policyTypes[{index}]"), kind, &["Ingress", "Egress"]);
    }
}

fn validate_ports(rule: &Value, path: &str, errors: &mut Errors) {
    for (index, port) in list(rule, "/ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        errors.one_of(format!("{path}.protocol"), &port["protocol"], &["TCP", "UDP", "SCTP"]);
        if !port["port"].is_null() {
            errors.port_or_name(format!("{path}.port"), &port["port"]);
        }
        let Some(end) = port["endPort"].as_i64() else { continue };
        let cause = match (&port["port"], port["port"].as_i64()) {
            (Value::Null, _) => "may not be specified when `port` is not specified",
            (_, None) => "may not be specified when `port` is non-numeric",
            (_, Some(first)) if end < first => "must be greater than or equal to `port`",
            _ => {
                errors.port(format!("{path}.endPort"), &port["endPort"]);
                continue;
            }
        };
        errors.invalid(format!("{path}.endPort"), end, cause);
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
    validate_block(&peer["ipBlock"], &format!("{path}.ipBlock"), errors);
}

fn validate_block(block: &Value, path: &str, errors: &mut Errors) {
    let range = match text(block, "/cidr") {
        "" => return errors.required(format!("{path}.cidr"), ""),
        range => range,
    };
    let before = errors.0.len();
    errors.range(format!("{path}.cidr"), range);
    let Some(range) = range.parse::<IpNet>().ok().filter(|_| errors.0.len() == before) else { return };
    for (index, except) in list(block, "/except").iter().enumerate() {
        let (field, except) = (format!("{path}.except[{index}]"), except.as_str().unwrap_or_default());
        let before = errors.0.len();
        errors.range(field.as_str(), except);
        let is_inside = except.parse::<IpNet>().is_ok_and(|except| range.contains(&except) && range != except);
        if errors.0.len() == before && !is_inside {
            errors.invalid(field, except, "must be a strict subset of `cidr`");
        }
    }
}
