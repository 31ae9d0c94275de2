//! Documents against the table: fields that do not exist, and values of the wrong type.

use serde_json::{Map, Value};

use super::{Presence, Type, fields, form};
use crate::server::quantity::Quantity;

/// The paths of fields that a message does not have.
pub(crate) fn unknown(message: &str, document: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    if let Value::Object(map) = document {
        find_unknown(message, map, "", &mut paths);
    }
    paths
}

fn is_type_key(key: &str, path: &str) -> bool {
    path.is_empty() && matches!(key, "kind" | "apiVersion")
}

fn find_unknown(message: &str, map: &Map<String, Value>, path: &str, paths: &mut Vec<String>) {
    for (key, value) in map {
        let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match holds(message, key) {
            Some(holds) => look_inside(holds, value, &here, paths),
            None if is_type_key(key, path) => {}
            None => paths.push(here),
        }
    }
}

fn look_inside(holds: &Type, value: &Value, path: &str, paths: &mut Vec<String>) {
    match (holds, value) {
        (Type::Message(message), Value::Object(map)) => find_unknown(message, map, path, paths),
        (Type::List(item), Value::Array(list)) => {
            list.iter().enumerate().for_each(|(index, value)| look_inside(item, value, &format!("{path}[{index}]"), paths));
        }
        (Type::Map(item), Value::Object(map)) => {
            map.iter().for_each(|(key, value)| look_inside(item, value, &format!("{path}.{key}"), paths))
        }
        _ => {}
    }
}

/// What a field of a message holds, also one that stands inline in it.
fn holds(message: &str, name: &str) -> Option<&'static Type> {
    let all = fields(message);
    let own = all.iter().find(|field| field.presence != Presence::Inline && field.name == name).map(|field| &field.holds);
    own.or_else(|| {
        all.iter().filter(|field| field.presence == Presence::Inline).find_map(|field| match field.holds {
            Type::Message(inner) => holds(inner, name),
            _ => None,
        })
    })
}

/// Drops fields that a message does not have, and those that are null. The error says which value has the wrong type.
pub(crate) fn conform(message: &str, document: &mut Value) -> Result<(), String> {
    match document {
        Value::Object(map) => conform_message(message, map, ""),
        other => Err(format!("json: cannot unmarshal {} into Go value of type {message}", kind_of(other))),
    }
}

fn conform_message(message: &str, map: &mut Map<String, Value>, path: &str) -> Result<(), String> {
    map.retain(|key, value| !value.is_null() && (is_type_key(key, path) || holds(message, key).is_some()));
    for (key, value) in map {
        let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if let Some(holds) = holds(message, key) {
            conform_value(message, holds, value, &here)?;
        }
    }
    Ok(())
}

fn conform_value(message: &str, holds: &Type, value: &mut Value, path: &str) -> Result<(), String> {
    let short = message.split('.').nth(1).unwrap_or(message);
    let wrong = |value: &Value, wanted: &str| {
        Err(format!("json: cannot unmarshal {} into Go struct field {short}.{path} of type {wanted}", kind_of(value)))
    };
    match (holds, &mut *value) {
        (Type::Any, _) | (_, Value::Null) => Ok(()),
        (Type::Message(inner), Value::Object(map)) => conform_message(inner, map, path),
        (Type::List(item), Value::Array(list)) => list.iter_mut().try_for_each(|value| conform_value(message, item, value, path)),
        (Type::Map(item), Value::Object(map)) => map.values_mut().try_for_each(|value| conform_value(message, item, value, path)),
        (Type::Bytes, Value::String(text)) => form::bytes(text),
        (Type::Time { is_fine }, Value::String(text)) => form::moment(text, *is_fine).map(|moment| *text = moment),
        (Type::Text | Type::IntegerOrText, Value::String(_)) | (Type::Bool, Value::Bool(_)) => Ok(()),
        (Type::Quantity, Value::String(_) | Value::Number(_)) => {
            let given = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            *value = Quantity::parse(&given)?.to_string().into();
            Ok(())
        }
        (Type::Integer | Type::IntegerOrText, Value::Number(number)) if number.is_i64() => Ok(()),
        (holds, other) => wrong(other, &go_name(holds)),
    }
}

/// What the original calls a type.
fn go_name(holds: &Type) -> String {
    match holds {
        Type::Text | Type::Bytes | Type::Time { .. } | Type::Quantity | Type::IntegerOrText => "string".into(),
        Type::Integer => "int32".into(),
        Type::Bool => "bool".into(),
        Type::Any => "interface {}".into(),
        Type::Message(message) => format!("v1.{}", message.split('.').nth(1).unwrap_or(message)),
        Type::List(item) => format!("[]{}", go_name(item)),
        Type::Map(item) => format!("map[string]{}", go_name(item)),
    }
}

/// What a JSON value is called.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_belong_is_found_and_dropped() {
        let mut pod = json!({
            "kind": "Pod", "colour": 1, "metadata": {"name": "a", "labels": {"any": "thing"}},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}, "x": 1}], "containers": [{"name": "c", "image": null}]},
        });
        assert_eq!(unknown("core.Pod", &pod), ["colour", "spec.volumes[0].x"]);
        conform("core.Pod", &mut pod).unwrap();
        assert_eq!(pod["spec"], json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "c"}]}));
        let wrong = conform("core.Pod", &mut json!({"spec": {"containers": {}}})).unwrap_err();
        assert_eq!(wrong, "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container");
    }
}
