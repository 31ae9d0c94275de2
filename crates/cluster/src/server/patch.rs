//! Changes to documents, in the three forms that clients send.

mod json;
mod merge;
mod strategic;

use serde_json::Value;

use super::document::read_json;
use super::status::{Failure, Result};

pub(crate) use strategic::merging;

/// A change to a document.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// RFC 6902: operations in order.
    Json(Vec<json::Operation>),
    /// RFC 7386: a document laid over another.
    Merge(Value),
    /// The same, but lists of things with names are merged by name.
    Strategic(Value),
}

impl Patch {
    /// Reads a patch by its media type.
    pub(crate) fn read(media_type: &str, bytes: &[u8]) -> Result<Self> {
        let form = media_type.split(';').next().unwrap_or_default().trim();
        let accepted = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";
        match form {
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                let message = format!("server-side apply is not available on this server; send one of {accepted}");
                return Err(Failure::unsupported_media_type(message));
            }
            "application/json-patch+json" | "application/merge-patch+json" | "application/strategic-merge-patch+json" => {}
            _ => return Err(Failure::unsupported_patch()),
        }
        let (patch, _) = read_json(bytes).map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
        match form {
            "application/json-patch+json" => json::read(&patch).map(Self::Json),
            _ if !patch.is_object() => Err(Failure::bad_request("a patch of this kind is an object")),
            "application/merge-patch+json" => Ok(Self::Merge(patch)),
            _ => Ok(Self::Strategic(patch)),
        }
    }

    /// The document after the change.
    pub(crate) fn apply(&self, mut document: Value) -> Result<Value> {
        match self {
            Self::Json(operations) => {
                json::apply(&mut document, operations)?;
            }
            Self::Merge(patch) => merge::apply(&mut document, patch),
            Self::Strategic(patch) => strategic::apply(&mut document, patch)?,
        }
        Ok(document)
    }
}
