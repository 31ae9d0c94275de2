//! Failures as Kubernetes says them: `Status` documents.
//!
//! Clients decide by `reason` and `code`, people read `message`, and `details` names the object and the fields at fault.

use serde_json::{Value, json};

use super::field::{Errors, FieldError};
use super::resource::Resource;

/// Why a request was refused.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
}

/// The forms in which documents are taken and given.
pub(crate) const FORMS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The result of an operation.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    fn about(code: u16, reason: &'static str, resource: &Resource, name: &str, message: String) -> Self {
        Self { code, reason, message, details: details(name, resource.group, resource.plural) }
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{} {name:?} not found", resource.qualified()))
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::about(409, "AlreadyExists", resource, name, format!("{} {name:?} already exists", resource.qualified()))
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, cause: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {cause}", resource.qualified());
        Self::about(409, "Conflict", resource, name, message)
    }

    /// The object was changed since the caller read it.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(resource, name, "the object has been modified; please apply your changes to the latest version and try again")
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, cause: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {cause}", resource.qualified());
        Self::about(403, "Forbidden", resource, name, message)
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind(resource.group, resource.kind, name, errors)
    }

    /// The same about a document that is of no resource of ours.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let subject = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let mut details = details(name, group, kind);
        details["causes"] = errors.iter().map(FieldError::cause).collect();
        Self { code: 422, reason: "Invalid", message: format!("{subject} {name:?} is invalid: {}", joined(errors)), details }
    }

    /// A patch that leaves a document with a value of the wrong type. The original names no object here.
    pub(crate) fn invalid_patch(patched: &str, cause: &str) -> Self {
        let mut errors = Errors::default();
        errors.invalid("patch", patched, cause);
        let causes: Vec<Value> = errors.0.iter().map(FieldError::cause).collect();
        let message = format!(" \"\" is invalid: {}", joined(&errors.0));
        Self { details: json!({"causes": causes}), ..Self::plain(422, "Invalid", message) }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// An option of a request that makes no sense.
    pub(crate) fn invalid_option(kind: &str, errors: &Errors) -> Self {
        let causes: Vec<Value> = errors.0.iter().map(FieldError::cause).collect();
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", joined(&errors.0));
        Self { details: json!({"group": "meta.k8s.io", "kind": kind, "causes": causes}), ..Self::plain(422, "Invalid", message) }
    }

    /// A resource version that is no longer known.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// A resource version that is not known so far.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        Self { details: json!({"causes": causes, "retryAfterSeconds": 1}), ..Self::plain(504, "Timeout", message) }
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::plain(405, "MethodNotAllowed", message) }
    }

    /// A path that leads nowhere.
    pub(crate) fn no_such_path() -> Self {
        Self { details: json!({}), ..Self::plain(404, "NotFound", "the server could not find the requested resource") }
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::plain(415, "UnsupportedMediaType", message)
    }

    /// A patch in a form that nobody knows. The original refuses it before it looks at what is asked.
    pub(crate) fn unsupported_patch() -> Self {
        Self { details: json!({}), ..Self::unsupported_media_type("415: Unsupported Media Type") }
    }

    /// A media type that is served, in a shape that is not.
    pub(crate) fn unknown_shape() -> Self {
        Self::plain(406, "NotAcceptable", format!("only the following media types are accepted: {FORMS}"))
    }

    /// A media type that is not served.
    pub(crate) fn not_acceptable() -> Self {
        Self::plain(406, "NotAcceptable", format!("406: Not Acceptable\n\nAvailable representations: {FORMS}"))
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::plain(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::plain(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::plain(500, "InternalError", message)
    }

    /// A mistake of the caller that the original takes for a fault of its own. Its errors of this kind have no reason.
    pub(crate) fn unreasoned(message: impl Into<String>) -> Self {
        Self::plain(500, "", message)
    }

    /// The store cannot be written just now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::plain(503, "ServiceUnavailable", message)
    }

    /// The `Status` document.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status["code"] = self.code.into();
        status
    }
}

/// Mistakes as a message lists them.
fn joined(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut details = json!({"name": name});
    if !group.is_empty() {
        details["group"] = group.into();
    }
    details["kind"] = kind.into();
    details
}

/// The `Status` document of an object that was deleted.
pub(crate) fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = details(name, resource.group, resource.plural);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
