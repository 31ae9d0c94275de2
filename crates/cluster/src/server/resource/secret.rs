//! Secrets: bytes that not everybody should read.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::configmap::{LARGEST, keep_immutable, validate_keys};
use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{as_map, child, default, map, text};
use crate::server::field::Errors;

const COLUMNS: &[Column] = &[column("Name"), column("Type"), column("Data"), column("Age")];

pub(crate) static SECRETS: Resource = Resource {
    storage: 7,
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    columns: COLUMNS,
    cells: |document| {
        let entries = map(document, "/data").map_or(0, |data| data.len());
        vec![name(document), text(document, "/type").into(), entries.into(), age(document)]
    },
    field_names: &["type"],
    fields: |document| vec![("type", text(document, "/type").to_owned())],
    default: complete,
    validate,
    validate_update,
    ..PLAIN
};

/// `stringData` is for writing only: it becomes part of `data`.
fn complete(document: &mut Value) {
    default(as_map(document), "type", "Opaque");
    if let Some(Value::Object(strings)) = as_map(document).shift_remove("stringData") {
        let data = child(document, "data");
        for (key, value) in strings {
            data.insert(key, BASE64_STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    validate_keys(document, "data", errors);
    let mut size = 0;
    for (key, value) in map(document, "/data").into_iter().flatten() {
        match value.as_str().map(|text| BASE64_STANDARD.decode(text)) {
            Some(Ok(bytes)) => size += bytes.len(),
            _ if value.is_null() => {}
            _ => errors.invalid(format!("data[{key}]"), "<secret contents redacted>", "must be base64"),
        }
    }
    if size > LARGEST {
        errors.too_long("data", LARGEST);
    }
    let needed = match text(document, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"][..],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in needed.iter().filter(|key| map(document, "/data").is_none_or(|data| !data.contains_key(**key))) {
        errors.required(format!("data[{key}]"), "");
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    if new["type"] != old["type"] {
        errors.invalid("type", new["type"].clone(), "field is immutable");
    }
    keep_immutable(new, old, &["data"], errors);
}
