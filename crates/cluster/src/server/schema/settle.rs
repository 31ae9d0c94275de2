//! Documents as the original writes them: what is empty is left out or shown, as the table says.

use serde_json::{Map, Value};

use super::{Field, Presence, Type, fields};
use crate::server::document::as_map;

/// The one moment that is left out when it is none; the others are null then.
const HIDDEN: &str = "creationTimestamp";

/// Leaves out what is empty and need not be there, and adds what always is.
pub(crate) fn settle(message: &str, document: &mut Value) {
    settle_map(message, as_map(document));
}

fn settle_map(message: &str, map: &mut Map<String, Value>) {
    for field in fields(message) {
        match (&field.holds, field.presence) {
            (Type::Message(inner), Presence::Inline) => settle_map(inner, map),
            _ => settle_field(field, map),
        }
    }
}

fn settle_field(field: &Field, map: &mut Map<String, Value>) {
    match map.get_mut(field.name) {
        Some(value) if !value.is_null() => {
            settle_value(&field.holds, value);
            if field.presence == Presence::Maybe && is_empty(&field.holds, value) {
                map.shift_remove(field.name);
            }
        }
        _ => match missing(field) {
            Some(value) => _ = map.insert(field.name.to_owned(), value),
            None => _ = map.shift_remove(field.name),
        },
    }
}

fn settle_value(holds: &Type, value: &mut Value) {
    match (holds, value) {
        (Type::Message(inner), Value::Object(map)) => settle_map(inner, map),
        (Type::List(item), Value::Array(list)) => list.iter_mut().for_each(|value| settle_value(item, value)),
        (Type::Map(item), Value::Object(map)) => map.values_mut().for_each(|value| settle_value(item, value)),
        _ => {}
    }
}

fn is_empty(holds: &Type, value: &Value) -> bool {
    match (holds, value) {
        (Type::Text | Type::Bytes, Value::String(text)) => text.is_empty(),
        (Type::Integer, value) => *value == 0,
        (Type::Bool, value) => *value == false,
        (Type::List(_), Value::Array(list)) => list.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

/// What stands for a field that nobody set.
fn missing(field: &Field) -> Option<Value> {
    match (&field.holds, field.presence) {
        (_, Presence::Pointer | Presence::Inline) => None,
        (Type::Message(inner), _) => {
            let mut map = Map::new();
            settle_map(inner, &mut map);
            Some(map.into())
        }
        (Type::Time { .. }, _) => (field.name != HIDDEN).then_some(Value::Null),
        (_, Presence::Maybe) => None,
        (Type::Text, _) => Some("".into()),
        (Type::Integer | Type::IntegerOrText, _) => Some(0.into()),
        (Type::Bool, _) => Some(false.into()),
        (Type::Quantity, _) => Some("0".into()),
        _ => Some(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_empty_goes_and_what_is_always_there_comes() {
        let mut event = json!({"metadata": {"name": "a", "labels": {}}, "count": 0, "reason": "", "involvedObject": {"name": "x"}});
        settle("core.Event", &mut event);
        let expected = json!({
            "metadata": {"name": "a"}, "involvedObject": {"name": "x"}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        });
        assert_eq!(event, expected);
    }
}
