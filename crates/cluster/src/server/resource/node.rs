//! Nodes: machines that pods run on.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Column, PLAIN, Resource, age, column, name, or_none, wide};
use crate::server::document::{child, list, map, text};
use crate::server::field::Errors;
use crate::server::name::label_value;
use crate::server::schema::as_original;

/// What a taint does to pods that do not tolerate it.
pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const NOT_READY: &str = "node.kubernetes.io/not-ready";

const COLUMNS: &[Column] = &[
    column("Name"),
    column("Status"),
    column("Roles"),
    column("Age"),
    column("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

pub(crate) static NODES: Resource = Resource {
    storage: 2,
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    namespaced: false,
    has_status: true,
    columns: COLUMNS,
    cells,
    field_names: &["spec.unschedulable"],
    fields: |document| vec![("spec.unschedulable", (document["spec"]["unschedulable"] == Value::Bool(true)).to_string())],
    default: |document| {
        let first = text(document, "/spec/podCIDR").to_owned();
        if !first.is_empty() && list(document, "/spec/podCIDRs").is_empty() {
            child(document, "spec").insert("podCIDRs".into(), json!([first]));
        }
    },
    admit,
    validate,
    validate_update: |new, old, errors| {
        if !list(old, "/spec/podCIDRs").is_empty() && new["spec"]["podCIDRs"] != old["spec"]["podCIDRs"] {
            errors.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
        }
        if !text(old, "/spec/providerID").is_empty() && new["spec"]["providerID"] != old["spec"]["providerID"] {
            errors.invalid("spec.providerID", Value::Null, "field cannot be modified once set");
        }
    },
    ..PLAIN
};

fn cells(document: &Value) -> Vec<Value> {
    let info = |key: &str| match text(document, &format!("/status/nodeInfo/{key}")) {
        "" => "<unknown>".into(),
        value => value.into(),
    };
    vec![
        name(document),
        status(document).into(),
        or_none(&roles(document)),
        age(document),
        text(document, "/status/nodeInfo/kubeletVersion").into(),
        or_none(address(document, "InternalIP")),
        or_none(address(document, "ExternalIP")),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn status(document: &Value) -> String {
    let ready = list(document, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let ready = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match document["spec"]["unschedulable"] == Value::Bool(true) {
        true => format!("{ready},SchedulingDisabled"),
        false => ready.to_owned(),
    }
}

fn roles(document: &Value) -> String {
    let labels = map(document, "/metadata/labels").into_iter().flatten();
    let mut roles: Vec<&str> = labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
    roles.sort_unstable();
    roles.join(",")
}

fn address<'a>(document: &'a Value, kind: &str) -> &'a str {
    let found = list(document, "/status/addresses").iter().find(|address| address["type"] == kind);
    found.map(|address| text(address, "/address")).unwrap_or_default()
}

fn validate(document: &Value, errors: &mut Errors) {
    validate_taints(document, errors);
    validate_ranges(list(document, "/spec/podCIDRs"), errors);
    for (index, address) in list(document, "/status/addresses").iter().enumerate() {
        if matches!(text(address, "/type"), "InternalIP" | "ExternalIP") {
            errors.address(format!("status.addresses[{index}].address"), text(address, "/address"));
        }
    }
}

/// The original takes taints for metadata here.
fn validate_taints(document: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in list(document, "/spec/taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let (key, effect) = (text(taint, "/key"), text(taint, "/effect"));
        errors.qualified(format!("{path}.key"), key);
        errors.name(format!("{path}.value"), text(taint, "/value"), label_value);
        match effect {
            "" => errors.required(format!("{path}.effect"), ""),
            _ => errors.one_of(format!("{path}.effect"), &taint["effect"], EFFECTS),
        }
        if !seen.insert((key, effect)) {
            errors.duplicate_because(path, as_original("Taint", taint), "taints must be unique by key and effect pair");
        }
    }
}

fn validate_ranges(ranges: &[Value], errors: &mut Errors) {
    for (index, range) in ranges.iter().enumerate() {
        errors.range(format!("spec.podCIDRs[{index}]"), range.as_str().unwrap_or_default());
    }
    let is_four = |range: &Value| range.as_str().and_then(|text| text.parse::<IpNet>().ok()).map(|range| range.addr().is_ipv4());
    let is_sound = match ranges {
        [] | [_] => true,
        [first, second] => is_four(first) != is_four(second),
        _ => false,
    };
    if !is_sound {
        errors.invalid("spec.podCIDRs", ranges.to_vec(), "may specify no more than one CIDR for each IP family");
    }
}

/// Nothing runs on a new node until it says that it is ready.
fn admit(document: &mut Value) -> Result<(), String> {
    let is_there = list(document, "/spec/taints").iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if !is_there {
        let taints = child(document, "spec").entry("taints").or_insert_with(|| json!([]));
        if let Value::Array(taints) = taints {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
    }
    Ok(())
}
