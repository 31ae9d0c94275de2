//! Nodes: machines that pods run on.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Column, PLAIN, Resource, age, column, name, or_none, wide};
use crate::server::document::{child, list, map, text};
use crate::server::field::Errors;

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
    validate,
    validate_update: |new, old, errors| {
        if !list(old, "/spec/podCIDRs").is_empty() && new["spec"]["podCIDRs"] != old["spec"]["podCIDRs"] {
            errors.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
        }
        if !text(old, "/spec/providerID").is_empty() && new["spec"]["providerID"] != old["spec"]["providerID"] {
            errors.forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
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
    for (index, cidr) in list(document, "/spec/podCIDRs").iter().enumerate() {
        if cidr.as_str().is_none_or(|text| text.parse::<IpNet>().is_err()) {
            errors.invalid(
                format!("spec.podCIDRs[{index}]"),
                cidr.clone(),
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            );
        }
    }
    for (index, address) in list(document, "/status/addresses").iter().enumerate() {
        let is_ip = matches!(text(address, "/type"), "InternalIP" | "ExternalIP");
        if is_ip && text(address, "/address").parse::<IpAddr>().is_err() {
            let field = format!("status.addresses[{index}].address");
            errors.invalid(field, address["address"].clone(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
    }
}
