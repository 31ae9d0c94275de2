//! Strategic merge: a merge patch that knows which lists are sets of things with names.
//!
//! Such lists are merged by a key; others are replaced. Directives in the patch say otherwise: `$patch` replaces or deletes,
//! `$deleteFromPrimitiveList` takes values away, `$setElementOrder` gives the order, `$retainKeys` drops the other keys.

use serde_json::{Map, Value};

use crate::server::document::{as_map, text};
use crate::server::status::{Failure, Result};

/// The lists that are merged: the end of their path, and their key. Those without a key are sets of plain values.
///
/// The longest end that fits counts; `ports` is of containers, Services and EndpointSlices alike.
const KEYS: &[(&str, Option<&str>)] = &[
    ("metadata.ownerReferences", Some("uid")),
    ("metadata.finalizers", None),
    ("spec.finalizers", None),
    ("containers.ports", Some("containerPort")),
    ("initContainers.ports", Some("containerPort")),
    ("spec.ports", Some("port")),
    ("containers", Some("name")),
    ("initContainers", Some("name")),
    ("ephemeralContainers", Some("name")),
    ("containers.env", Some("name")),
    ("initContainers.env", Some("name")),
    ("volumeMounts", Some("mountPath")),
    ("volumeDevices", Some("devicePath")),
    ("spec.volumes", Some("name")),
    ("imagePullSecrets", Some("name")),
    ("spec.hostAliases", Some("ip")),
    ("topologySpreadConstraints", Some("topologyKey")),
    ("schedulingGates", Some("name")),
    ("resourceClaims", Some("name")),
    ("status.conditions", Some("type")),
    ("status.addresses", Some("type")),
    ("status.podIPs", Some("ip")),
    ("status.hostIPs", Some("ip")),
    ("spec.podCIDRs", None),
    ("secrets", Some("name")),
];

/// How a list at a path is merged; none is by replacing it.
pub(crate) fn merging(path: &str) -> Option<Option<&'static str>> {
    let fits = |end: &str| path == end || path.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'));
    KEYS.iter().filter(|(end, _)| fits(end)).max_by_key(|(end, _)| end.len()).map(|(_, key)| *key)
}

/// Lays a patch over a document.
pub(super) fn apply(document: &mut Value, patch: &Value) -> Result<()> {
    match patch {
        Value::Object(patch) => merge_map(as_map(document), patch, ""),
        _ => Err(Failure::bad_request("a strategic merge patch is an object")),
    }
}

fn invalid(cause: &str) -> Failure {
    Failure::internal(cause)
}

fn merge_map(target: &mut Map<String, Value>, patch: &Map<String, Value>, path: &str) -> Result<()> {
    match patch.get("$patch").map(Value::as_str) {
        Some(Some("replace")) => {
            *target = without_directives(patch);
            return Ok(());
        }
        Some(Some("delete")) => {
            target.clear();
            return Ok(());
        }
        Some(Some("merge")) | None => {}
        Some(_) => return Err(invalid("unknown $patch directive")),
    }
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|key, _| kept.iter().any(|kept| kept == key));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            delete_values(target, list, value);
        } else if !key.starts_with('$') {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            merge_value(target, key, value, &path)?;
        }
    }
    for (key, order) in patch {
        if let (Some(list), Value::Array(order)) = (key.strip_prefix("$setElementOrder/"), order) {
            let path = if path.is_empty() { list.to_owned() } else { format!("{path}.{list}") };
            let by = merging(&path).flatten();
            check_order(patch.get(list), order, by)?;
            set_order(target, list, order, by);
        }
    }
    Ok(())
}

fn merge_value(target: &mut Map<String, Value>, key: &str, value: &Value, path: &str) -> Result<()> {
    match value {
        Value::Null => _ = target.shift_remove(key),
        Value::Object(patch) => match patch.get("$patch") == Some(&Value::from("delete")) {
            true => _ = target.shift_remove(key),
            false => merge_map(as_map(target.entry(key).or_insert(Value::Null)), patch, path)?,
        },
        Value::Array(patch) => merge_list(target, key, patch, path)?,
        plain => _ = target.insert(key.to_owned(), plain.clone()),
    }
    Ok(())
}

fn merge_list(target: &mut Map<String, Value>, key: &str, patch: &[Value], path: &str) -> Result<()> {
    let replaces = patch.iter().any(|item| item.get("$patch") == Some(&Value::from("replace")));
    let slot = target.entry(key).or_insert(Value::Null);
    let (Some(by), false) = (merging(path), replaces) else {
        let items = patch.iter().filter(|item| item.get("$patch").is_none() || !replaces);
        *slot = items.map(strip).collect();
        return Ok(());
    };
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    let Value::Array(list) = slot else { return Ok(()) };
    match by {
        Some(by) => patch.iter().try_for_each(|item| merge_item(list, item, by, path)),
        None => {
            merge_words(list, patch);
            Ok(())
        }
    }
}

/// New words come before those that are there.
fn merge_words(list: &mut Vec<Value>, patch: &[Value]) {
    let mut merged: Vec<Value> = Vec::with_capacity(patch.len() + list.len());
    for word in patch.iter().chain(list.iter()) {
        if !merged.contains(word) {
            merged.push(word.clone());
        }
    }
    *list = merged;
}

fn merge_item(list: &mut Vec<Value>, item: &Value, by: &str, path: &str) -> Result<()> {
    let Value::Object(patch) = item else {
        return Err(invalid(&format!("an item of {path} is no object")));
    };
    let key = patch.get(by).ok_or_else(|| invalid(&format!("map: {item} does not contain declared merge key: {by}")))?;
    let at = list.iter().position(|candidate| candidate.get(by) == Some(key));
    if text(item, "/$patch") == "delete" {
        list.retain(|candidate| candidate.get(by) != Some(key));
        return Ok(());
    }
    match at.and_then(|at| list.get_mut(at)) {
        Some(present) => merge_map(as_map(present), patch, path),
        None => {
            let mut fresh = Map::new();
            merge_map(&mut fresh, patch, path)?;
            list.push(Value::Object(fresh));
            Ok(())
        }
    }
}

fn delete_values(target: &mut Map<String, Value>, key: &str, values: &Value) {
    let gone = values.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(Value::Array(list)) = target.get_mut(key) {
        list.retain(|value| !gone.contains(value));
    }
}

/// An order has all that is patched, and has it in the order of the patch.
fn check_order(patch: Option<&Value>, order: &[Value], by: Option<&str>) -> Result<()> {
    let key = |item: &Value| by.map_or(item.clone(), |by| item[by].clone());
    let is_patched = |item: &&Value| !matches!(text(item, "/$patch"), "delete" | "replace");
    let mut ordered = order.iter().map(key);
    let items = patch.and_then(Value::as_array).into_iter().flatten().filter(is_patched);
    match items.map(key).find(|item| !ordered.any(|wanted| wanted == *item)) {
        None => Ok(()),
        Some(_) => {
            let (patch, order) = (patch.cloned().unwrap_or_default(), Value::from(order.to_vec()));
            let cause = format!("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n");
            Err(Failure::unreasoned(cause))
        }
    }
}

/// Puts a list in order. What the order does not name keeps its place relative to its neighbours, after those named.
fn set_order(target: &mut Map<String, Value>, key: &str, order: &[Value], by: Option<&str>) {
    let Some(Value::Array(list)) = target.get_mut(key) else { return };
    let position = |item: &Value| {
        let wanted = order.iter().position(|wanted| match by {
            Some(by) => wanted.get(by) == item.get(by),
            None => wanted == item,
        });
        wanted.unwrap_or(order.len())
    };
    list.sort_by_key(position);
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null()).map(|(key, value)| (key.clone(), strip(value))).collect()
}

/// A value of a patch as it stands in a document: without directives and nulls.
fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(list) => list.iter().map(strip).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Value {
        let mut document = document;
        apply(&mut document, &patch).unwrap();
        document
    }

    fn two() -> Value {
        json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}})
    }

    #[test]
    fn lists_of_things_with_names_are_merged() {
        let after = patched(two(), json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}}));
        let images: Vec<&str> = after["spec"]["containers"].as_array().unwrap().iter().map(|c| c["image"].as_str().unwrap()).collect();
        assert_eq!(images, ["1", "2", "3"]);
    }

    #[test]
    fn directives_are_followed() {
        let gone = patched(two(), json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}));
        assert_eq!(gone, json!({"spec": {"containers": [{"name": "b", "image": "1"}]}}));
        let replaced = patched(two(), json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}));
        assert_eq!(replaced, json!({"spec": {"containers": [{"name": "z"}]}}));
        let ordered = patched(two(), json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}));
        assert_eq!(ordered["spec"]["containers"][0]["name"], "b");
        let document =
            json!({"metadata": {"finalizers": ["a/x", "b/x"]}, "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}});
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"], "finalizers": ["c/x"]},
            "spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        });
        let after = patched(document, patch);
        assert_eq!(after, json!({"metadata": {"finalizers": ["c/x", "b/x"]}, "spec": {"strategy": {"type": "Recreate"}}}));
    }

    #[test]
    fn other_lists_are_replaced() {
        let after = patched(json!({"spec": {"args": [1, 2]}}), json!({"spec": {"args": [3]}}));
        assert_eq!(after, json!({"spec": {"args": [3]}}));
    }

    #[test]
    fn an_item_without_its_key_is_refused() {
        let mut document = two();
        assert_eq!(apply(&mut document, &json!({"spec": {"containers": [{"image": "2"}]}})).unwrap_err().code, 500);
    }
}
