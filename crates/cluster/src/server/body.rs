//! Documents that clients send: their form, and the little of their shape that everything else relies on.

mod lenient;
mod syntax;

use serde_json::Value;

use super::document::read_json;
use super::field::Errors;
use super::query::Query;
use super::resource::{self, Resource};
use super::schema;
use super::status::{FORMS, Failure, Result};

/// The type that the original first reads of a document.
const TYPE_META: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// A document as a client sent it, and what was odd about it.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) document: Value,
    pub(crate) warnings: Vec<String>,
}

/// Reads a document by its media type. `kind` is what it should be.
pub(crate) fn read(kind: &str, media_type: &str, bytes: &[u8]) -> Result<Body> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let malformed = |error: String| Failure::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {error}"));
    let (document, duplicates) = match media_type {
        "" | "application/json" => read_text(bytes).map_err(malformed)?,
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
    if !document.is_object() {
        return Err(malformed(no_object(&document, bytes)));
    }
    let warnings = duplicates.into_iter().map(|path| format!("duplicate field {path:?}")).collect();
    Ok(Body { document, warnings })
}

/// Reads JSON, and the paths of keys that stand twice in it.
fn read_text(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    read_json(bytes).or_else(|error| match syntax::mistake(bytes) {
        Some(mistake) => Err(format!("couldn't get version/kind; json parse error: {mistake} ({})", syntax::summary(bytes))),
        // What is JSON by its signs may still have text that is none.
        None => read_json(lenient::mended(bytes).as_bytes()).map_err(|_| error.to_string()),
    })
}

fn no_object(document: &Value, bytes: &[u8]) -> String {
    let kind = schema::kind_of(document);
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type {TYPE_META} ({})",
        syntax::summary(bytes)
    )
}

/// Checks that a document is one of a resource, and gives it the shape that the rest relies on.
pub(crate) fn check(resource: &Resource, document: &mut Value) -> Result<()> {
    check_type(resource, document)?;
    let cannot = |cause: String| {
        let message = format!("{} in version {:?} cannot be handled as a {}: {cause}", resource.kind, resource.version, resource.kind);
        Failure::bad_request(message)
    };
    conform(resource, document).map_err(cannot)
}

/// Gives a document the shape of a resource. The error says which value has the wrong type.
pub(crate) fn conform(resource: &Resource, document: &mut Value) -> Result<(), String> {
    schema::conform(&schema::message_of(resource), document)?;
    super::document::metadata(document);
    Ok(())
}

/// A document that says what it is must say that it is one of the resource.
pub(crate) fn check_type(resource: &Resource, document: &Value) -> Result<()> {
    let text = |key: &str| match document.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Failure::bad_request(format!("{key} must be a string"))),
    };
    let expected = resource.api_version();
    let (version, kind) = (text("apiVersion")?.unwrap_or(&expected), text("kind")?.unwrap_or(resource.kind));
    if version == expected && kind == resource.kind {
        return Ok(());
    }
    let short = version.rsplit('/').next().unwrap_or_default();
    let cannot =
        |cause: String| Failure::bad_request(format!("{kind} in version {short:?} cannot be handled as a {}: {cause}", resource.kind));
    match resource::of_kind(version, kind) {
        None => {
            Err(cannot(format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"")))
        }
        // Two versions of one thing can be turned into each other, but each has its own place.
        Some(known) if known.storage == resource.storage => {
            let message = format!("the API version in the data ({version}) does not match the expected API version ({expected})");
            Err(Failure::bad_request(message))
        }
        Some(_) => {
            let group = match resource.group.split('.').next() {
                None | Some("" | "events") => "core",
                Some(group) => group,
            };
            Err(cannot(format!("converting ({short}.{kind}) to ({group}.{}): unknown conversion", resource.kind)))
        }
    }
}

/// Applies `fieldValidation`: what is odd is refused, told, or ignored.
pub(crate) fn judge(resource: &Resource, body: &Body, query: &Query, options: &str) -> Result<Vec<String>> {
    let unknown = schema::unknown(&schema::message_of(resource), &body.document).into_iter().map(|path| format!("unknown field {path:?}"));
    let findings: Vec<String> = unknown.chain(body.warnings.iter().cloned()).collect();
    check_level(query, options)?;
    match query.get("fieldValidation") {
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
        _ => Ok(findings),
    }
}

/// Objects to a level of `fieldValidation` that there is not. `options` is what the options of this request are called.
pub(crate) fn check_level(query: &Query, options: &str) -> Result<()> {
    let mut errors = Errors::default();
    errors.one_of("fieldValidation", &query.get("fieldValidation").into(), &["", "Ignore", "Strict", "Warn"]);
    match errors.0.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid_option(options, &errors)),
    }
}
