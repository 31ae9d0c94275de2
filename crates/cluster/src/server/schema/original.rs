//! Documents as the original's own types hold them: some of its messages show these.
//!
//! `schema/originals.txt` is the table. `cargo xtask schema` reads it from the internal types of Kubernetes v1.37.1 and, for
//! the names in documents, from `k8s.io/api` v0.37.1: a line with a name begins a type, and each line under it is a field with its name there, its
//! name in documents (`-` if its fields stand in the outer type) and what it holds: `text`, `bool`, `number`, `quantity`, a
//! type, `*` before a type that may be missing, `[]` before one of which there are many, or `null` for what is shown as it is.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// A field: its name in the original, in documents, and what it holds.
type Field = (&'static str, &'static str, &'static str);

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| read(include_str!("originals.txt")));

fn read(table: &'static str) -> HashMap<&'static str, Vec<Field>> {
    let mut types: HashMap<&'static str, Vec<Field>> = HashMap::new();
    let mut current = "";
    for line in table.lines() {
        match line.strip_prefix(' ').map(|line| line.split(' ').collect::<Vec<_>>()).as_deref() {
            None => {
                current = line;
                types.entry(current).or_default();
            }
            Some([own, name, holds]) => types.entry(current).or_default().push((own, name, holds)),
            Some(_) => {}
        }
    }
    types
}

/// A document as a type of the original's.
pub(crate) fn as_original(name: &str, document: &Value) -> Value {
    let mut map = Map::new();
    fill(name, document, &mut map);
    map.into()
}

fn fill(name: &str, document: &Value, into: &mut Map<String, Value>) {
    for (own, name, holds) in TYPES.get(name).into_iter().flatten() {
        match *name {
            "-" => fill(holds, document, into),
            name => _ = into.insert((*own).to_owned(), show(holds, document.get(name).unwrap_or(&Value::Null))),
        }
    }
}

fn show(holds: &str, value: &Value) -> Value {
    let pointed = |name: &str| if value.is_null() { Value::Null } else { as_original(name, value) };
    match holds {
        "null" => value.clone(),
        "text" | "bool" | "number" | "quantity" if !value.is_null() => value.clone(),
        "text" => "".into(),
        "bool" => false.into(),
        "number" => 0.into(),
        "quantity" => "0".into(),
        _ => match (holds.strip_prefix('*'), holds.strip_prefix("[]")) {
            (Some(name), _) => pointed(name),
            (_, Some(name)) => value.as_array().map_or(Value::Null, |list| list.iter().map(|item| as_original(name, item)).collect()),
            _ => as_original(holds, value),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_said_is_shown_too() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        assert_eq!(as_original("Taint", &taint).to_string(), r#"{"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}"#);
        let volume = as_original("Volume", &json!({"name": "v", "emptyDir": {}}));
        assert_eq!((&volume["Name"], &volume["EmptyDir"]["Medium"], &volume["HostPath"]), (&json!("v"), &json!(""), &Value::Null));
    }

    #[test]
    fn every_type_is_there() {
        for (own, _, holds) in TYPES.values().flatten() {
            let name = holds.trim_start_matches(['*', '[', ']']);
            let is_plain = ["null", "text", "bool", "number", "quantity"].contains(&name);
            assert!(is_plain || TYPES.contains_key(name), "{own}: {holds}");
        }
    }
}
