//! Secrets: bytes that not everybody should read.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::configmap::{LARGEST, keep_immutable, validate_keys};
use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{as_map, child, default, map, text, texts};
use crate::server::field::Errors;

/// The annotation that names the account a token is for.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

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
    validate_type(document, errors);
}

/// What a Secret's type promises to those who use it.
fn validate_type(document: &Value, errors: &mut Errors) {
    let data = |key: &str| document["data"].get(key).and_then(Value::as_str);
    let missing = |keys: &[&'static str]| keys.iter().copied().filter(|key| data(key).is_none()).collect::<Vec<_>>();
    let needed = match text(document, "/type") {
        "kubernetes.io/service-account-token" => {
            let account = texts(document, "/metadata/annotations").any(|(key, value)| key == ACCOUNT && !value.is_empty());
            return if !account {
                errors.required(format!("metadata.annotations[{ACCOUNT}]"), "")
            };
        }
        "kubernetes.io/dockercfg" => return validate_json(data(".dockercfg"), ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => return validate_json(data(".dockerconfigjson"), ".dockerconfigjson", errors),
        // One of the two is enough.
        "kubernetes.io/basic-auth" if data("username").or(data("password")).is_some() => Vec::new(),
        "kubernetes.io/basic-auth" => missing(&["username", "password"]),
        "kubernetes.io/ssh-auth" if data("ssh-privatekey") == Some("") => vec!["ssh-privatekey"],
        "kubernetes.io/ssh-auth" => missing(&["ssh-privatekey"]),
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    };
    for key in needed {
        errors.required(format!("data[{key}]"), "");
    }
}

fn validate_json(data: Option<&str>, key: &str, errors: &mut Errors) {
    let field = format!("data[{key}]");
    let Some(data) = data else { return errors.required(field, "") };
    let bytes = BASE64_STANDARD.decode(data).unwrap_or_default();
    if serde_json::from_slice::<Map<String, Value>>(&bytes).is_err() {
        errors.invalid(field, "<secret contents redacted>", json_cause(&bytes));
    }
}

/// Why bytes are no JSON map, in the original's words as far as they are simple.
fn json_cause(bytes: &[u8]) -> String {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => {
            let kind = match value {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => "bool",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(error) if error.is_eof() => "unexpected end of JSON input".into(),
        Err(_) => {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).copied().unwrap_or_default();
            match b"{[\"-0123456789tfn".contains(&first) {
                true => "invalid character in JSON".into(),
                false => format!("invalid character '{}' looking for beginning of value", char::from(first)),
            }
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    if new["type"] != old["type"] {
        errors.invalid("type", new["type"].clone(), "field is immutable");
    }
    keep_immutable(new, old, &["data"], errors);
}
