//! RFC 6902: operations in order, all of them or none.

use serde_json::Value;

use crate::server::schema::kind_of;
use crate::server::status::{Failure, Result};

/// The most operations of one patch, as in the original.
const MOST: usize = 10_000;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Add(String, Value),
    Remove(String),
    Replace(String, Value),
    Move(String, String),
    Copy(String, String),
    Test(String, Value),
}

/// Reads the operations.
pub(super) fn read(patch: &Value) -> Result<Vec<Operation>> {
    let list = patch.as_array().ok_or_else(|| {
        Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
            kind_of(patch)
        ))
    })?;
    if list.len() > MOST {
        let message = format!("The allowed maximum operations in a JSON patch is {MOST}, got {}", list.len());
        return Err(Failure::too_large(message));
    }
    list.iter().map(operation).collect()
}

fn operation(step: &Value) -> Result<Operation> {
    let text = |key: &str| {
        let value = step[key].as_str().map(str::to_owned);
        value.ok_or_else(|| Failure::bad_request(format!("an operation of a JSON patch has no {key:?}")))
    };
    let value = || step.get("value").cloned().unwrap_or_default();
    Ok(match step["op"].as_str() {
        Some("add") => Operation::Add(text("path")?, value()),
        Some("remove") => Operation::Remove(text("path")?),
        Some("replace") => Operation::Replace(text("path")?, value()),
        Some("move") => Operation::Move(text("from")?, text("path")?),
        Some("copy") => Operation::Copy(text("from")?, text("path")?),
        Some("test") => Operation::Test(text("path")?, value()),
        _ => return Err(Failure::bad_request(format!("Unexpected kind: {}", step["op"]))),
    })
}

/// Does the operations. A document that they cannot be done to is invalid for them.
pub(super) fn apply(document: &mut Value, operations: &[Operation]) -> Result<()> {
    let refused = |_| Failure {
        code: 422,
        reason: "Invalid",
        message: "the server rejected our request due to an error in our request".into(),
        details: serde_json::json!({}),
    };
    operations.iter().try_for_each(|operation| step(document, operation)).map_err(refused)
}

fn step(document: &mut Value, operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Add(path, value) => add(document, path, value.clone()),
        Operation::Remove(path) => remove(document, path).map(drop),
        Operation::Replace(path, value) => {
            // The original puts a key of a map there if it is missing.
            match document.pointer_mut(path) {
                Some(slot) => *slot = value.clone(),
                None => match parent(document, path) {
                    Some((Value::Object(map), end)) => _ = map.insert(end, value.clone()),
                    _ => return Err(missing("replace", path)),
                },
            }
            Ok(())
        }
        Operation::Move(from, path) => {
            let value = remove(document, from)?;
            add(document, path, value)
        }
        Operation::Copy(from, path) => {
            let value = document.pointer(from).cloned().ok_or_else(|| missing("copy", from))?;
            add(document, path, value)
        }
        Operation::Test(path, value) => match document.pointer(path).unwrap_or(&Value::Null) == value {
            true => Ok(()),
            false => Err(format!("testing value {path} failed: test failed")),
        },
    }
}

fn missing(doing: &str, path: &str) -> String {
    format!("{doing} operation does not apply: doc is missing path: {path}: missing value")
}

/// The place that holds a path's end, and the end.
fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, end) = path.rsplit_once('/')?;
    Some((document.pointer_mut(parent)?, end.replace("~1", "/").replace("~0", "~")))
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    match parent(document, path) {
        Some((Value::Object(map), end)) => {
            map.insert(end, value);
            Ok(())
        }
        Some((Value::Array(list), end)) if end == "-" => {
            list.push(value);
            Ok(())
        }
        Some((Value::Array(list), end)) => match end.parse::<usize>().ok().filter(|at| *at <= list.len()) {
            Some(at) => {
                list.insert(at, value);
                Ok(())
            }
            None => Err(format!("add operation does not apply: Unable to access invalid index: {end}: invalid index referenced")),
        },
        _ => Err(missing("add", path)),
    }
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    match parent(document, path) {
        Some((Value::Object(map), end)) => map.shift_remove(&end).ok_or_else(|| missing("remove", path)),
        Some((Value::Array(list), end)) => match end.parse::<usize>().ok().filter(|at| *at < list.len()) {
            Some(at) => Ok(list.remove(at)),
            None => Err(missing("remove", path)),
        },
        _ => Err(missing("remove", path)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value> {
        let mut document = document;
        apply(&mut document, &read(&patch)?)?;
        Ok(document)
    }

    #[test]
    fn operations_are_done_in_order() {
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "add", "path": "/a/1", "value": 2},
            {"op": "remove", "path": "/a/0"},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "move", "from": "/a", "path": "/c~1d"},
            {"op": "replace", "path": "/b/0", "value": null}
        ]);
        assert_eq!(patched(json!({"a": [1]}), patch).unwrap(), json!({"b": [null, 3], "c/d": [2, 3]}));
    }

    #[test]
    fn what_does_not_apply_is_refused() {
        for patch in [
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "add", "path": "/l/5", "value": 1}]),
            json!([{"op": "remove", "path": ""}]),
        ] {
            assert_eq!(patched(json!({"a": 1, "l": []}), patch.clone()).unwrap_err().code, 422, "{patch}");
        }
        assert_eq!(patched(json!({}), json!({})).unwrap_err().code, 400);
        assert_eq!(patched(json!({}), json!([{"op": "jump", "path": "/a"}])).unwrap_err().code, 400);
    }
}
