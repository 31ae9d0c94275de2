//! Deployments: ReplicaSets that follow each other as the template changes.

use serde_json::{Value, json};

use super::replicaset::{complete_template, keep_selector, validate as validate_set, wide_cells};
use super::{Column, PLAIN, Resource, age, column, integer, name, wide};
use crate::server::document::{as_map, child, default, number};
use crate::server::field::Errors;

const COLUMNS: &[Column] = &[
    column("Name"),
    column("Ready"),
    integer("Up-to-date"),
    integer("Available"),
    column("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub(crate) static DEPLOYMENTS: Resource = Resource {
    storage: 13,
    group: "apps",
    kind: "Deployment",
    plural: "deployments",
    singular: "deployment",
    short_names: &["deploy"],
    categories: &["all"],
    has_status: true,
    has_scale: true,
    has_generation: true,
    columns: COLUMNS,
    cells,
    default: complete,
    first_status: |_| json!({}),
    validate,
    validate_update: keep_selector,
    ..PLAIN
};

fn complete(document: &mut Value) {
    let spec = child(document, "spec");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    default(spec, "strategy", json!({}));
    if let Some(strategy) = spec.get_mut("strategy").map(as_map) {
        default(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            default(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = strategy.get_mut("rollingUpdate").map(as_map) {
                default(rolling, "maxUnavailable", "25%");
                default(rolling, "maxSurge", "25%");
            }
        }
    }
    complete_template(spec);
}

fn validate(document: &Value, errors: &mut Errors) {
    validate_set(document, errors);
    let strategy = &document["spec"]["strategy"];
    errors.one_of("spec.strategy.type", &strategy["type"], &["Recreate", "RollingUpdate"]);
    if strategy["type"] == "Recreate" && !strategy["rollingUpdate"].is_null() {
        errors.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'");
    }
    let rolling = &strategy["rollingUpdate"];
    let is_none = |value: &Value| *value == 0 || *value == "0%" || *value == "0";
    if is_none(&rolling["maxUnavailable"]) && is_none(&rolling["maxSurge"]) {
        let field = "spec.strategy.rollingUpdate.maxUnavailable";
        errors.invalid(field, rolling["maxUnavailable"].clone(), "may not be 0 when `maxSurge` is 0");
    }
}

fn cells(document: &Value) -> Vec<Value> {
    let count = |path: &str| number(document, path).unwrap_or(0);
    let ready = format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas"));
    let mut cells = vec![
        name(document),
        ready.into(),
        count("/status/updatedReplicas").into(),
        count("/status/availableReplicas").into(),
        age(document),
    ];
    cells.extend(wide_cells(document));
    cells
}
