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
        let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind = match resource.group {
            "" => resource.kind.to_owned(),
            group => format!("{}.{group}", resource.kind),
        };
        let causes: Vec<Value> = errors.iter().map(FieldError::cause).collect();
        let mut details = details(name, resource.group, resource.kind);
        details["causes"] = causes.into();
        Self { code: 422, reason: "Invalid", message: format!("{kind} {name:?} is invalid: {list}"), details }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// An option of a request that makes no sense.
    pub(crate) fn invalid_option(kind: &str, errors: &Errors) -> Self {
        let texts: Vec<String> = errors.0.iter().map(FieldError::to_string).collect();
        let causes: Vec<Value> = errors.0.iter().map(FieldError::cause).collect();
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", texts.join(", "));
        Self { details: json!({"group": "meta.k8s.io", "kind": kind, "causes": causes}), ..Self::plain(422, "Invalid", message) }
    }

    /// A resource version that is no longer known.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// A resource version that is not known so far.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
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

    pub(crate) fn not_acceptable() -> Self {
        Self::plain(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
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

    /// The store cannot be written just now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::plain(503, "ServiceUnavailable", message)
    }

    /// The `Status` document.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status["code"] = self.code.into();
        status
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
