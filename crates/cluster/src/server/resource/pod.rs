//! Pods.

mod admission;
mod update;

use serde_json::{Value, json};

use super::pod_spec;
use super::{Column, PLAIN, Resource, age, column, name, or_none, wide};
use crate::server::document::{child, default, list, number, text};
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
    admit: admission::admit,
    validate,
    validate_new: |document, errors| {
        if !list(document, "/spec/ephemeralContainers").is_empty() {
            errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
        }
        if !text(document, "/spec/nodeName").is_empty() && !list(document, "/spec/schedulingGates").is_empty() {
            errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
        }
    },
    validate_update: update::validate,
    ..PLAIN
};

/// Completes the spec, and the list of addresses whose first one stands alone too.
fn complete(document: &mut Value) {
    let spec = child(document, "spec");
    pod_spec::complete(spec);
    default(spec, "enableServiceLinks", true);
    // A negative time was possible once and means no time at all.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    let address = text(document, "/status/podIP").to_owned();
    if !address.is_empty() && list(document, "/status/podIPs").is_empty() {
        child(document, "status").insert("podIPs".into(), json!([{"ip": address}]));
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    pod_spec::validate(&document["spec"], "spec", errors);
    // Templates are not held to this.
    for key in pod_spec::CONTAINERS {
        for (index, container) in list(document, &format!("/spec/{key}")).iter().enumerate() {
            let image = text(container, "/image");
            if image.trim() != image {
                errors.invalid(format!("spec.{key}[{index}].image"), image, "must not have leading or trailing whitespace");
            }
        }
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
