//! ReplicaSets: as many pods of one template as asked for.

use serde_json::{Map, Value, json};

use super::pod_spec;
use super::{Column, PLAIN, Resource, age, column, integer, name, or_none, wide};
use crate::server::document::{as_map, child, default, list, number, text};
use crate::server::field::Errors;
use crate::server::schema::settle;
use crate::server::selector::LabelSelector;

const COLUMNS: &[Column] = &[
    column("Name"),
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub(crate) static REPLICA_SETS: Resource = Resource {
    storage: 14,
    group: "apps",
    kind: "ReplicaSet",
    plural: "replicasets",
    singular: "replicaset",
    short_names: &["rs"],
    categories: &["all"],
    has_status: true,
    has_scale: true,
    has_generation: true,
    columns: COLUMNS,
    cells,
    field_names: &["status.replicas"],
    fields: |document| vec![("status.replicas", number(document, "/status/replicas").unwrap_or(0).to_string())],
    default: |document| {
        let spec = child(document, "spec");
        default(spec, "replicas", 1);
        complete_template(spec);
    },
    first_status: |_| json!({"replicas": 0}),
    validate,
    validate_update: keep_selector,
    ..PLAIN
};

/// Completes the template of pods in a spec.
pub(super) fn complete_template(spec: &mut Map<String, Value>) {
    if let Some(template) = spec.get_mut("template") {
        pod_spec::complete(child(template, "spec"));
        default(as_map(template), "metadata", json!({}));
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    let spec = &document["spec"];
    errors.not_negative("spec.replicas", &spec["replicas"]);
    errors.not_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    validate_selection(spec, errors);
}

/// Objects to a selector and the template of the pods that it is to select.
pub(super) fn validate_selection(spec: &Value, errors: &mut Errors) {
    let (selector, template) = (&spec["selector"], &spec["template"]);
    let before = errors.0.len();
    LabelSelector::validate(selector, "spec.selector", errors);
    let is_sound = errors.0.len() == before;
    let parsed = LabelSelector::of_document(selector);
    if selector.is_null() {
        errors.required("spec.selector", "");
    } else if is_sound && parsed.is_empty() {
        errors.invalid("spec.selector", selector.clone(), "empty selector is invalid for deployment");
    }
    if !is_sound {
        let mut shown = selector.clone();
        settle("meta.LabelSelector", &mut shown);
        return errors.invalid("spec.selector", shown, "invalid label selector");
    }
    // A selector that is missing selects nothing, an empty one everything.
    if selector.is_null() || !parsed.matches_document(template) {
        let labels = template["metadata"]["labels"].clone();
        errors.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
    }
    validate_template(template, errors);
}

fn validate_template(template: &Value, errors: &mut Errors) {
    errors.labels("spec.template.labels", template, "/metadata/labels");
    let spec = &template["spec"];
    pod_spec::validate(spec, "spec.template.spec", errors);
    if !list(spec, "/ephemeralContainers").is_empty() {
        errors.forbidden("spec.template.spec.ephemeralContainers", "ephemeral containers not allowed in pod template");
    }
    errors.one_of("spec.template.spec.restartPolicy", &spec["restartPolicy"], &["Always"]);
    if !spec["activeDeadlineSeconds"].is_null() {
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in ReplicaSet is not Supported");
    }
}

/// Objects to another selector: the pods selected so far would be nobody's.
pub(super) fn keep_selector(new: &Value, old: &Value, errors: &mut Errors) {
    if new["spec"]["selector"] != old["spec"]["selector"] {
        errors.invalid("spec.selector", new["spec"]["selector"].clone(), "field is immutable");
    }
}

/// The wide columns that Deployments and ReplicaSets share: containers, images and the selector.
pub(super) fn wide_cells(document: &Value) -> [Value; 3] {
    let containers = list(document, "/spec/template/spec/containers");
    let of = |key: &str| containers.iter().map(|container| text(container, key)).collect::<Vec<_>>().join(",");
    [of("/name").into(), of("/image").into(), or_none(&LabelSelector::of_document(&document["spec"]["selector"]).to_string())]
}

fn cells(document: &Value) -> Vec<Value> {
    let count = |path: &str| number(document, path).unwrap_or(0).into();
    let mut cells = vec![name(document), count("/spec/replicas"), count("/status/replicas"), count("/status/readyReplicas"), age(document)];
    cells.extend(wide_cells(document));
    cells
}
