//! Pods.

use serde_json::{Value, json};

use super::pod_spec;
use super::{Column, PLAIN, Resource, age, column, name, or_none, wide};
use crate::server::document::{child, list, number, text};
use crate::server::field::Errors;

const COLUMNS: &[Column] = &[
    column("Name"),
    column("Ready"),
    column("Status"),
    column("Restarts"),
    column("Age"),
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

pub(crate) static PODS: Resource = Resource {
    storage: 3,
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    has_status: true,
    has_generation: true,
    columns: COLUMNS,
    cells,
    field_names: &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ],
    fields,
    default: complete,
    first_status: |document| json!({"phase": "Pending", "qosClass": pod_spec::quality(&document["spec"])}),
    validate: |document, errors| pod_spec::validate(&document["spec"], "spec", errors),
    validate_update,
    ..PLAIN
};

/// Completes the spec, and the list of addresses whose first one stands alone too.
fn complete(document: &mut Value) {
    pod_spec::complete(child(document, "spec"));
    let address = text(document, "/status/podIP").to_owned();
    if !address.is_empty() && list(document, "/status/podIPs").is_empty() {
        child(document, "status").insert("podIPs".into(), json!([{"ip": address}]));
    }
}

fn fields(document: &Value) -> Vec<(&'static str, String)> {
    let at = |path: &str| text(document, path).to_owned();
    vec![
        ("spec.nodeName", at("/spec/nodeName")),
        ("spec.restartPolicy", at("/spec/restartPolicy")),
        ("spec.schedulerName", at("/spec/schedulerName")),
        ("spec.serviceAccountName", at("/spec/serviceAccountName")),
        ("spec.hostNetwork", (document["spec"]["hostNetwork"] == Value::Bool(true)).to_string()),
        ("status.phase", at("/status/phase")),
        ("status.podIP", at("/status/podIP")),
        ("status.podIPs", at("/status/podIP")),
        ("status.nominatedNodeName", at("/status/nominatedNodeName")),
    ]
}

/// Whether a pod's readiness condition holds.
pub(crate) fn is_ready(document: &Value) -> bool {
    list(document, "/status/conditions").iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn cells(document: &Value) -> Vec<Value> {
    let containers = list(document, "/spec/containers").len();
    let statuses = list(document, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status["ready"] == Value::Bool(true)).count();
    let restarts: i64 = statuses.iter().filter_map(|status| number(status, "/restartCount")).sum();
    vec![
        name(document),
        format!("{ready}/{containers}").into(),
        status(document).into(),
        restarts.to_string().into(),
        age(document),
        or_none(text(document, "/status/podIP")),
        or_none(text(document, "/spec/nodeName")),
        or_none(text(document, "/status/nominatedNodeName")),
        "<none>".into(),
    ]
}

/// The one word that tells how a pod is: why a container waits or ended, else the phase.
fn status(document: &Value) -> &str {
    if !text(document, "/metadata/deletionTimestamp").is_empty() {
        return "Terminating";
    }
    let own = text(document, "/status/reason");
    let statuses = list(document, "/status/containerStatuses").iter();
    let reasons = statuses.flat_map(|status| [text(status, "/state/waiting/reason"), text(status, "/state/terminated/reason")]);
    let reason = reasons.into_iter().find(|reason| !reason.is_empty());
    match (own, reason) {
        ("", Some(reason)) => reason,
        ("", None) => text(document, "/status/phase"),
        (own, _) => own,
    }
}

/// Of a pod that exists little can change: images, a deadline, tolerations to add, and who schedules it where.
fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    for key in ["containers", "initContainers"] {
        let count = |document: &Value| list(document, &format!("/spec/{key}")).len();
        if count(new) != count(old) {
            return errors.forbidden(format!("spec.{key}"), "pod updates may not add or remove containers");
        }
    }
    let fixed = |document: &Value| {
        let mut spec = document["spec"].clone();
        let map = crate::server::document::as_map(&mut spec);
        for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"] {
            map.shift_remove(key);
        }
        for key in ["containers", "initContainers"] {
            for container in crate::server::document::items_mut(map, key) {
                container.shift_remove("image");
                container.shift_remove("resources");
            }
        }
        spec
    };
    let mut new_spec = fixed(new);
    if text(old, "/spec/nodeName").is_empty() && !text(new, "/spec/nodeName").is_empty() {
        crate::server::document::as_map(&mut new_spec).shift_remove("nodeName");
    }
    if new_spec != fixed(old) {
        errors.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}
