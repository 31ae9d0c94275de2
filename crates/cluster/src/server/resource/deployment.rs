//! Deployments: ReplicaSets that follow each other as the template changes.

use serde_json::{Value, json};

use super::replicaset::{complete_template, keep_selector, validate_selection, wide_cells};
use super::{Column, PLAIN, Resource, age, column, integer, name, wide};
use crate::server::document::{as_map, child, default, number, text};
use crate::server::field::Errors;
use crate::server::schema::as_original;

const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
    validation is '[0-9]+%')";

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
    let spec = &document["spec"];
    errors.not_negative("spec.replicas", &spec["replicas"]);
    validate_selection(spec, errors);
    validate_strategy(&spec["strategy"], errors);
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        errors.not_negative(format!("spec.{key}"), &spec[key]);
    }
    let deadline = spec["progressDeadlineSeconds"].as_i64();
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0)) {
        errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
}

fn validate_strategy(strategy: &Value, errors: &mut Errors) {
    match text(strategy, "/type") {
        "Recreate" if strategy["rollingUpdate"].is_null() => {}
        "Recreate" => errors.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"),
        "RollingUpdate" => validate_rolling(&strategy["rollingUpdate"], errors),
        _ => {
            let shown = as_original("DeploymentStrategy", strategy);
            errors.not_supported("spec.strategy", shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

/// The number before a percent sign.
fn percent(value: &Value) -> Option<u64> {
    value.as_str()?.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

fn validate_rolling(rolling: &Value, errors: &mut Errors) {
    let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    for (key, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
        let field = format!("spec.strategy.rollingUpdate.{key}");
        match value.is_string() {
            true if percent(value).is_none() => errors.invalid(field, value.clone(), NO_PERCENT),
            true => {}
            false => errors.not_negative(field, value),
        }
    }
    let field = "spec.strategy.rollingUpdate.maxUnavailable";
    let is_none = |value: &Value| percent(value).unwrap_or(0) == 0 && value.as_i64().unwrap_or(0) == 0;
    if is_none(unavailable) && is_none(surge) {
        errors.invalid(field, unavailable.clone(), "may not be 0 when `maxSurge` is 0");
    }
    if percent(unavailable).is_some_and(|percent| percent > 100) {
        errors.invalid(field, unavailable.clone(), "must not be greater than 100%");
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
