//! The part of a document that all objects share.

use serde_json::Value;

use crate::server::document::{list, map, metadata, text, texts};
use crate::server::field::Errors;
use crate::server::name::{label_value, qualified};
use crate::server::resource::Resource;

/// The most that annotations may have together.
const LARGEST_ANNOTATIONS: usize = 256 << 10;

/// How many letters follow a `generateName`, and which.
const SUFFIX_LENGTH: usize = 5;
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// What clients cannot set: it is the server's to say.
const OURS: &[&str] = &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// Gives a new object its identity.
pub(super) fn begin(resource: &Resource, document: &mut Value) {
    let meta = metadata(document);
    for key in OURS.iter().chain(&["resourceVersion"]) {
        meta.shift_remove(*key);
    }
    if resource.has_generation {
        meta.insert("generation".into(), 1.into());
    }
    meta.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    meta.insert("creationTimestamp".into(), crate::server::document::now().into());
}

/// A name that begins as asked.
pub(super) fn generate_name(base: &str) -> String {
    let longest = 63 - SUFFIX_LENGTH;
    let cut = base.char_indices().map(|(at, character)| at + character.len_utf8()).take_while(|end| *end <= longest).last().unwrap_or(0);
    let letters = uuid::Uuid::new_v4().into_bytes().into_iter().take(SUFFIX_LENGTH);
    let suffix: String = letters.map(|byte| SUFFIX_LETTERS[byte as usize % SUFFIX_LETTERS.len()] as char).collect();
    format!("{}{suffix}", base.get(..cut).unwrap_or_default())
}

/// Gives a changed object what only the server says.
pub(super) fn carry_over(document: &mut Value, old: &Value) {
    let meta = metadata(document);
    for key in OURS {
        match old["metadata"].get(*key) {
            Some(value) => _ = meta.insert((*key).to_owned(), value.clone()),
            None => _ = meta.shift_remove(*key),
        }
    }
    for key in ["name", "namespace", "generateName"] {
        if let Some(value) = old["metadata"].get(key) {
            meta.insert(key.to_owned(), value.clone());
        }
    }
}

/// Counts a change of what is desired: everything but metadata and status.
pub(super) fn count_generation(resource: &Resource, document: &mut Value, old: &Value) {
    let desired = |document: &Value| {
        let mut document = document.clone();
        let map = crate::server::document::as_map(&mut document);
        for key in ["metadata", "status", "kind", "apiVersion"] {
            map.shift_remove(key);
        }
        document
    };
    if resource.has_generation && desired(document) != desired(old) {
        bump_generation(document);
    }
}

/// The next generation.
pub(super) fn bump_generation(document: &mut Value) {
    let generation = document["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
    metadata(document).insert("generation".into(), generation.into());
}

/// Objects to metadata that breaks the rules.
pub(super) fn validate(resource: &Resource, document: &Value, errors: &mut Errors) {
    let name = text(document, "/metadata/name");
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else if let Some(cause) = (resource.name_rule)(name) {
        errors.invalid("metadata.name", name, cause);
    }
    for (key, value) in texts(document, "/metadata/labels") {
        if let Some(cause) = qualified(key) {
            errors.invalid("metadata.labels", key, cause);
        }
        if let Some(cause) = label_value(value) {
            errors.invalid("metadata.labels", value, cause);
        }
    }
    for key in map(document, "/metadata/annotations").into_iter().flatten().map(|(key, _)| key) {
        if let Some(cause) = qualified(&key.to_lowercase()) {
            errors.invalid("metadata.annotations", key.as_str(), cause);
        }
    }
    let size: usize = texts(document, "/metadata/annotations").map(|(key, value)| key.len() + value.len()).sum();
    if size > LARGEST_ANNOTATIONS {
        errors.too_long("metadata.annotations", LARGEST_ANNOTATIONS);
    }
    for finalizer in list(document, "/metadata/finalizers").iter().filter_map(Value::as_str) {
        if let Some(cause) = qualified(finalizer) {
            errors.invalid("metadata.finalizers", finalizer, cause);
        } else if !finalizer.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer) {
            let cause = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid("metadata.finalizers[0]", finalizer, cause);
        }
    }
    validate_owners(document, errors);
}

fn validate_owners(document: &Value, errors: &mut Errors) {
    let owners = list(document, "/metadata/ownerReferences");
    for (index, owner) in owners.iter().enumerate() {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{key}")).is_empty() {
                errors.required(format!("metadata.ownerReferences[{index}].{key}"), "must not be empty");
            }
        }
    }
    let mut controllers = owners
        .iter()
        .filter(|owner| owner["controller"] == Value::Bool(true))
        .map(|owner| format!("{}/{}", text(owner, "/kind"), text(owner, "/name")));
    let Some(first) = controllers.next() else { return };
    for other in controllers {
        let cause = format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {other}");
        errors.invalid("metadata.ownerReferences", Value::from(owners.to_vec()), cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_generated_within_bounds() {
        assert!(generate_name("web-").starts_with("web-") && generate_name("web-").len() == 9);
        assert_eq!(generate_name(&"a".repeat(100)).len(), 63);
        assert!(generate_name(&"é".repeat(60)).len() <= 63);
    }
}
