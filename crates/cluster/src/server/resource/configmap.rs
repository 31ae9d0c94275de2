//! ConfigMaps: texts and bytes for programs to read.

use serde_json::Value;

use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{map, texts};
use crate::server::field::Errors;
use crate::server::name::data_key;

const COLUMNS: &[Column] = &[column("Name"), column("Data"), column("Age")];

pub(crate) static CONFIGMAPS: Resource = Resource {
    storage: 6,
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    columns: COLUMNS,
    cells: |document| vec![name(document), entries(document).into(), age(document)],
    validate,
    validate_update: |new, old, errors| keep_immutable(new, old, &["data", "binaryData"], errors),
    ..PLAIN
};

/// The most that all values together may have.
pub(super) const LARGEST: usize = 1 << 20;

fn entries(document: &Value) -> usize {
    ["/data", "/binaryData"].iter().filter_map(|path| map(document, path)).map(|map| map.len()).sum()
}

fn validate(document: &Value, errors: &mut Errors) {
    for field in ["data", "binaryData"] {
        validate_keys(document, field, errors);
    }
    for (key, value) in map(document, "/data").into_iter().flatten() {
        if !value.is_string() {
            errors.invalid(format!("data[{key}]"), value.clone(), "must be a string");
        }
        if map(document, "/binaryData").is_some_and(|binary| binary.contains_key(key)) {
            errors.invalid(format!("data[{key}]"), key.as_str(), "duplicate of key present in binaryData");
        }
    }
    let size: usize = ["/data", "/binaryData"].iter().flat_map(|path| texts(document, path)).map(|(_, value)| value.len()).sum();
    if size > LARGEST {
        errors.too_long("[]", LARGEST);
    }
}

/// Objects to keys that cannot be names of files.
pub(super) fn validate_keys(document: &Value, field: &str, errors: &mut Errors) {
    for key in map(document, &format!("/{field}")).into_iter().flatten().map(|(key, _)| key) {
        if let Some(cause) = data_key(key) {
            errors.invalid(format!("{field}[{key}]"), key.as_str(), cause);
        }
    }
}

/// Objects to changes of what was declared immutable.
pub(super) fn keep_immutable(new: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    if old["immutable"] != Value::Bool(true) {
        return;
    }
    if new["immutable"] != Value::Bool(true) {
        errors.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    for field in fields {
        if new[*field] != old[*field] {
            errors.forbidden(*field, "field is immutable when `immutable` is set");
        }
    }
}
