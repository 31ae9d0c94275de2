//! Of a pod that exists little can change: images, a deadline, tolerations to add, and gates to open.

use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use crate::server::diff::unified;
use crate::server::document::{as_map, items_mut, list, text};
use crate::server::field::Errors;
use crate::server::resource::pod_spec::CONTAINERS;
use crate::server::schema::as_original;

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Compares a changed pod with the old one.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    for key in CONTAINERS {
        let count = |document: &Value| list(document, &format!("/spec/{key}")).len();
        if count(new) != count(old) {
            return errors.forbidden(format!("spec.{key}"), "pod updates may not add or remove containers");
        }
    }
    if !is_deadline_kept(&new["spec"]["activeDeadlineSeconds"], &old["spec"]["activeDeadlineSeconds"], errors) {
        return;
    }
    validate_tolerations(new, old, errors);
    validate_gates(new, old, errors);
    let restored = restore(new, old);
    if restored != old["spec"] {
        let difference = unified(&pretty(&as_original("PodSpec", &old["spec"])), &pretty(&as_original("PodSpec", &restored)));
        errors.forbidden("spec", format!("{CHANGEABLE}\n{difference}"));
    }
}

/// A deadline can be set or come nearer.
fn is_deadline_kept(new: &Value, old: &Value, errors: &mut Errors) -> bool {
    match (new.as_i64(), old.as_i64()) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            errors.invalid("spec.activeDeadlineSeconds", Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    true
}

fn validate_tolerations(new: &Value, old: &Value, errors: &mut Errors) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        as_map(&mut toleration).shift_remove("tolerationSeconds");
        toleration
    };
    let kept: Vec<Value> = list(new, "/spec/tolerations").iter().map(timeless).collect();
    if !list(old, "/spec/tolerations").iter().all(|toleration| kept.contains(&timeless(toleration))) {
        errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn validate_gates(new: &Value, old: &Value, errors: &mut Errors) {
    let before: Vec<&str> = list(old, "/spec/schedulingGates").iter().map(|gate| text(gate, "/name")).collect();
    for (index, gate) in list(new, "/spec/schedulingGates").iter().enumerate() {
        let name = text(gate, "/name");
        if !before.contains(&name) {
            let cause = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(format!("spec.schedulingGates[{index}].name"), cause);
        }
    }
}

/// The new spec with everything put back that may change.
fn restore(new: &Value, old: &Value) -> Value {
    let mut spec = new["spec"].clone();
    let map = as_map(&mut spec);
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put_back(map, key, &old["spec"][key]);
    }
    for key in CONTAINERS {
        for (container, before) in items_mut(map, key).zip(list(old, &format!("/spec/{key}"))) {
            put_back(container, "image", &before["image"]);
        }
    }
    spec
}

fn put_back(map: &mut Map<String, Value>, key: &str, old: &Value) {
    match old {
        Value::Null => _ = map.shift_remove(key),
        old => _ = map.insert(key.to_owned(), old.clone()),
    }
}

/// JSON in lines, as the original indents it.
fn pretty(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b" "));
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}
