//! Where and when a pod may run: tolerations and gates.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::name::label_value;
use crate::server::resource::node::EFFECTS;

pub(super) fn validate_tolerations(spec: &Value, path: &str, errors: &mut Errors) {
    for (index, toleration) in list(spec, "/tolerations").iter().enumerate() {
        validate_toleration(toleration, &format!("{path}.tolerations[{index}]"), errors);
    }
}

fn validate_toleration(toleration: &Value, path: &str, errors: &mut Errors) {
    let at = |key: &str| text(toleration, &format!("/{key}"));
    let (key, operator, value, effect) = (at("key"), at("operator"), at("value"), at("effect"));
    if !key.is_empty() {
        errors.qualified(format!("{path}.key"), key);
    }
    if key.is_empty() && operator != "Exists" {
        let cause = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(format!("{path}.operator"), operator, cause);
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        errors.invalid(format!("{path}.effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator {
        "Equal" | "" => errors.name(format!("{path}.operator"), value, label_value),
        "Exists" if value.is_empty() => {}
        "Exists" => errors.invalid(format!("{path}.operator"), value, "value must be empty when `operator` is 'Exists'"),
        _ => errors.not_supported(format!("{path}.operator"), operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        errors.one_of(format!("{path}.effect"), &toleration["effect"], EFFECTS);
    }
}

pub(super) fn validate_gates(spec: &Value, path: &str, errors: &mut Errors) {
    for (index, gate) in list(spec, "/readinessGates").iter().enumerate() {
        errors.qualified(format!("{path}.readinessGates[{index}].conditionType"), text(gate, "/conditionType"));
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let (path, name) = (format!("{path}.schedulingGates[{index}]"), text(gate, "/name"));
        errors.qualified(path.as_str(), name);
        if !seen.insert(name) {
            errors.duplicate(path, name);
        }
    }
}
