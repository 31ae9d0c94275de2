//! Replacing objects, whole or in part.

use std::sync::Arc;

use serde_json::Value;

use super::create::create_in;
use super::create::settle_namespace;
use super::delete::put_or_finish;
use super::scale;
use super::{Answer, Api, metadata};
use crate::server::allocation::{self, Ranges};
use crate::server::body::{self, Body};
use crate::server::document::{as_map, child, metadata as meta, text};
use crate::server::field::Errors;
use crate::server::query::Query;
use crate::server::resource::{NAMESPACES, Resource, SERVICES};
use crate::server::route::Target;
use crate::server::schema;
use crate::server::status::{Failure, Result};
use crate::server::store::{Draft, Key, Stored, put_off};

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// Everything but the status.
    Main,
    Status,
    /// The finalizers of a namespace.
    Finalize,
    /// The number of replicas.
    Scale,
}

impl Part {
    /// The part that a path names; none if the resource has no such part.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        let resource = target.resource;
        match target.subresource.as_deref() {
            None => Some(Self::Main),
            Some("status") if resource.has_status => Some(Self::Status),
            Some("scale") if resource.has_scale => Some(Self::Scale),
            Some("finalize") if std::ptr::eq(resource, &NAMESPACES) => Some(Self::Finalize),
            _ => None,
        }
    }
}

/// Replaces an object by what a client sent.
pub(crate) async fn update(api: &Api, target: &Target, part: Part, query: &Query, mut body: Body) -> Result<Answer> {
    let resource = target.resource;
    let dry_run = query.is_dry_run("UpdateOptions")?;
    let name = target.name.clone().unwrap_or_default();
    let namespace = target.namespace.clone().unwrap_or_default();
    let key = Key::new(resource, &namespace, &name);
    if part == Part::Scale {
        return scale::replace(api, target, &key, body.document, dry_run).await;
    }
    body::check(resource, &mut body.document)?;
    let mut document = body.document;
    settle_namespace(resource, &mut document, &namespace)?;
    match text(&document, "/metadata/name") {
        "" => _ = meta(&mut document).insert("name".into(), name.as_str().into()),
        given if given != name => {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(Failure::bad_request(message));
        }
        _ => {}
    }
    if let Some(view) = resource.view {
        (view.inward)(&mut document);
    }
    let ranges = api.ranges.clone();
    let operation = move |draft: &mut Draft| {
        let is_new = part == Part::Main && is_created_by_update(resource) && draft.state.get(&key).is_none();
        match is_new {
            // Whoever names a uid means an object that was there.
            true if !text(&document, "/metadata/uid").is_empty() => Err(uid_conflict(resource, &key, text(&document, "/metadata/uid"), "")),
            true => create_in(draft, &ranges, resource, document).map(|stored| (201, stored)),
            false => replace_in(draft, &ranges, resource, &key, part, document).map(|stored| (200, stored)),
        }
    };
    let (code, stored) = api.store.change(move |draft| put_off(draft, dry_run, operation)).await?;
    Ok(Answer::Object(code, stored))
}

/// The kinds that need not be there to be replaced.
fn is_created_by_update(resource: &Resource) -> bool {
    matches!(resource.plural, "endpoints" | "events" | "leases" | "services")
}

/// Where the original would keep an object, which one of its messages tells.
fn registry_key(resource: &Resource, key: &Key) -> String {
    let place = match resource.plural {
        "nodes" => "minions",
        "services" => "services/specs",
        "endpoints" => "services/endpoints",
        plural => plural,
    };
    match resource.namespaced {
        true => format!("/registry/{place}/{}/{}", key.namespace, key.name),
        false => format!("/registry/{place}/{}", key.name),
    }
}

/// Replaces a part of an object in a draft.
pub(crate) fn replace_in(
    draft: &mut Draft,
    ranges: &Ranges,
    resource: &Resource,
    key: &Key,
    part: Part,
    mut document: Value,
) -> Result<Arc<Stored>> {
    let stored = draft.get(resource, key)?;
    check_preconditions(resource, &stored, &document)?;
    let old = stored.document();
    keep_other_parts(resource, part, &mut document, &old);
    metadata::carry_over(&mut document, &old);
    (resource.default)(&mut document);
    schema::settle(&schema::stored_message_of(resource), &mut document);
    if part == Part::Main && resource.storage == SERVICES.storage {
        allocation::carry_over(&mut document, &old);
    }
    validate(resource, &key.name, &document, &old, part)?;
    if part == Part::Main && resource.storage == SERVICES.storage {
        allocation::allocate(draft, ranges, key, &mut document, Some(&old))?;
    }
    metadata::count_generation(resource, &mut document, &old);
    put_or_finish(draft, resource, &stored, document)
}

fn uid_conflict(resource: &Resource, key: &Key, given: &str, actual: &str) -> Failure {
    let cause = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: \
         {given}, UID in object meta: {actual}",
        registry_key(resource, key)
    );
    Failure::conflict(resource, &key.name, &cause)
}

/// What the client believes about the object must still be so.
fn check_preconditions(resource: &Resource, stored: &Stored, document: &Value) -> Result<()> {
    let name = &stored.key.name;
    let uid = text(document, "/metadata/uid");
    if !uid.is_empty() && *uid != *stored.uid {
        return Err(uid_conflict(resource, &stored.key, uid, &stored.uid));
    }
    match text(document, "/metadata/resourceVersion") {
        "" if resource.plural == "leases" => {
            let mut errors = Errors::default();
            errors.invalid("metadata.resourceVersion", 0, "must be specified for an update");
            Err(Failure::invalid(resource, name, &errors.0))
        }
        "" => Ok(()),
        version => match version.parse::<u64>() {
            Ok(revision) if revision == stored.revision => Ok(()),
            Ok(0) => Ok(()),
            Ok(_) => Err(Failure::modified(resource, name)),
            Err(_) => Err(Failure::unreasoned(format!("strconv.ParseUint: parsing {version:?}: invalid syntax"))),
        },
    }
}

/// Puts back what this request may not change.
fn keep_other_parts(resource: &Resource, part: Part, document: &mut Value, old: &Value) {
    match part {
        Part::Main | Part::Scale => {
            if resource.has_status {
                restore(document, old, "status");
            }
            if resource.plural == "namespaces" {
                restore(document, old, "spec");
            }
        }
        Part::Status => {
            let status = document.get("status").cloned();
            let (labels, annotations) = (document["metadata"]["labels"].take(), document["metadata"]["annotations"].take());
            *document = old.clone();
            match status {
                Some(status) => _ = as_map(document).insert("status".into(), status),
                None => _ = as_map(document).shift_remove("status"),
            }
            // The agents on nodes write these along with the status of what is theirs.
            if matches!(resource.plural, "pods" | "nodes") {
                for (key, value) in [("labels", labels), ("annotations", annotations)] {
                    if !value.is_null() {
                        meta(document).insert(key.into(), value);
                    }
                }
            }
        }
        Part::Finalize => {
            let finalizers = document.pointer("/spec/finalizers").cloned();
            *document = old.clone();
            match finalizers {
                Some(finalizers) => _ = child(document, "spec").insert("finalizers".into(), finalizers),
                None => _ = child(document, "spec").insert("finalizers".into(), Value::Array(Vec::new())),
            }
        }
    }
}

fn restore(document: &mut Value, old: &Value, key: &str) {
    match old.get(key) {
        Some(value) => _ = as_map(document).insert(key.to_owned(), value.clone()),
        None => _ = as_map(document).shift_remove(key),
    }
}

fn validate(resource: &Resource, name: &str, document: &Value, old: &Value, part: Part) -> Result<()> {
    let mut errors = Errors::default();
    metadata::validate(resource, document, &mut errors);
    if part == Part::Main || part == Part::Scale {
        (resource.validate)(document, &mut errors);
        (resource.validate_update)(document, old, &mut errors);
    }
    forbid_new_finalizers(document, old, &mut errors);
    match errors.0.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid(resource, name, &errors.0)),
    }
}

/// What is being deleted takes no more finalizers.
fn forbid_new_finalizers(document: &Value, old: &Value, errors: &mut Errors) {
    use crate::server::document::list;
    if text(old, "/metadata/deletionTimestamp").is_empty() {
        return;
    }
    let before = list(old, "/metadata/finalizers");
    let added = list(document, "/metadata/finalizers").iter().filter(|finalizer| !before.contains(finalizer));
    let added: Vec<String> = added.map(Value::to_string).collect();
    if !added.is_empty() {
        let list = added.join(", ");
        let cause = format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}");
        errors.forbidden("metadata.finalizers", cause);
    }
}
