//! Documents that clients send: their form, and the little of their shape that everything else relies on.

use serde_json::{Map, Value};

use super::document::read_json;
use super::field::Errors;
use super::resource::Resource;
use super::schema;
use super::status::{Failure, Result};

/// The forms a document may come in.
const FORMS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// A document as a client sent it, and what was odd about it.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) document: Value,
    pub(crate) warnings: Vec<String>,
}

/// Reads a document by its media type.
pub(crate) fn read(media_type: &str, bytes: &[u8]) -> Result<Body> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let malformed = |error: String| Failure::bad_request(format!("the object provided is unrecognized (must be of type Object): {error}"));
    let (document, duplicates) = match media_type {
        "" | "application/json" => read_json(bytes).map_err(|error| malformed(error.to_string()))?,
        "application/yaml" | "application/x-yaml" => {
            let document = serde_norway::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
            (document, Vec::new())
        }
        "application/vnd.kubernetes.protobuf" => (schema::protobuf::read(bytes).map_err(malformed)?, Vec::new()),
        _ => {
            let message = format!("the body of the request was in an unknown format - accepted media types include: {FORMS}");
            return Err(Failure::unsupported_media_type(message));
        }
    };
    let warnings = duplicates.into_iter().map(|path| format!("duplicate field {path:?}")).collect();
    Ok(Body { document, warnings })
}

/// Checks that a document is one of a resource, and gives it the shape that the rest relies on.
pub(crate) fn check(resource: &Resource, document: &mut Value) -> Result<()> {
    let Value::Object(map) = document else {
        return Err(Failure::bad_request(format!("a {} is an object, not this", resource.kind)));
    };
    check_type(resource, map)?;
    map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let cannot = |cause: String| {
        let message = format!("{} in version {:?} cannot be handled as a {}: {cause}", resource.kind, resource.version, resource.kind);
        Failure::bad_request(message)
    };
    for key in ["metadata", "spec", "status"] {
        match map.get(key) {
            Some(Value::Null) if key != "metadata" => _ = map.shift_remove(key),
            Some(value) if !value.is_object() => return Err(cannot(format!("{key} must be an object"))),
            _ => {}
        }
    }
    check_metadata(&map["metadata"]).map_err(cannot)?;
    schema::conform(&schema::message_of(resource), document).map_err(cannot)
}

fn check_type(resource: &Resource, map: &mut Map<String, Value>) -> Result<()> {
    let (api_version, kind) = (map.get("apiVersion").cloned(), map.get("kind").cloned());
    let expected = resource.api_version();
    match (api_version, kind) {
        (Some(Value::String(version)), _) if version != expected => {
            let message = format!("the API version in the data ({version}) does not match the expected API version ({expected})");
            Err(Failure::bad_request(message))
        }
        (_, Some(Value::String(kind))) if kind != resource.kind => {
            let message = format!("{kind} in version {:?} cannot be handled as a {}", resource.version, resource.kind);
            Err(Failure::bad_request(message))
        }
        (Some(version), _) if !version.is_string() => Err(Failure::bad_request("apiVersion must be a string")),
        (_, Some(kind)) if !kind.is_string() => Err(Failure::bad_request("kind must be a string")),
        _ => Ok(()),
    }
}

fn check_metadata(metadata: &Value) -> Result<(), String> {
    let at = |key: &str| metadata.get(key).filter(|value| !value.is_null());
    for key in ["name", "generateName", "namespace", "uid", "resourceVersion"] {
        if at(key).is_some_and(|value| !value.is_string()) {
            return Err(format!("metadata.{key} must be a string"));
        }
    }
    for key in ["labels", "annotations"] {
        let sound = |map: &Map<String, Value>| map.values().all(Value::is_string);
        if at(key).is_some_and(|value| !value.as_object().is_some_and(sound)) {
            return Err(format!("metadata.{key} must be a map of strings"));
        }
    }
    for (key, is_sound) in [("finalizers", Value::is_string as fn(&Value) -> bool), ("ownerReferences", Value::is_object)] {
        if at(key).is_some_and(|value| !value.as_array().is_some_and(|list| list.iter().all(is_sound))) {
            return Err(format!("metadata.{key} must be a list of what belongs there"));
        }
    }
    Ok(())
}

/// Applies `fieldValidation`: what is odd is refused, told, or ignored.
pub(crate) fn judge(resource: &Resource, body: &Body, level: &str) -> Result<Vec<String>> {
    let unknown = schema::unknown(&schema::message_of(resource), &body.document).into_iter().map(|path| format!("unknown field {path:?}"));
    let findings: Vec<String> = unknown.chain(body.warnings.iter().cloned()).collect();
    match level {
        "Strict" if !findings.is_empty() => {
            let message = format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                resource.kind,
                resource.version,
                resource.kind,
                findings.join(", ")
            );
            Err(Failure::bad_request(message))
        }
        "Strict" | "Ignore" => Ok(Vec::new()),
        "" | "Warn" => Ok(findings),
        other => {
            let mut errors = Errors::default();
            errors.one_of("fieldValidation", &other.into(), &["Ignore", "Strict", "Warn"]);
            Err(Failure::invalid_option("CreateOptions", &errors))
        }
    }
}
