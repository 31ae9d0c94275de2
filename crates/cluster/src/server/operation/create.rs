//! Creating objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Api, metadata};
use crate::server::allocation::{self, Ranges};
use crate::server::body::{self, Body};
use crate::server::document::{as_map, child, metadata as meta, now, text};
use crate::server::field::Errors;
use crate::server::query::Query;
use crate::server::resource::{NAMESPACES, PODS, Resource, SERVICES};
use crate::server::route::Target;
use crate::server::schema;
use crate::server::status::{Failure, Result};
use crate::server::store::{Draft, Key, Stored, put_off};

/// Creates an object from what a client sent.
pub(crate) async fn create(api: &Api, target: &Target, query: &Query, mut body: Body) -> Result<Answer> {
    let resource = target.resource;
    let dry_run = query.is_dry_run("CreateOptions")?;
    body::check(resource, &mut body.document)?;
    let mut document = body.document;
    let namespace = target.namespace.clone().unwrap_or_default();
    settle_namespace(resource, &mut document, &namespace)?;
    if !text(&document, "/metadata/resourceVersion").is_empty() {
        return Err(Failure::unreasoned("resourceVersion should not be set on objects to be created"));
    }
    if let Some(view) = resource.view {
        (view.inward)(&mut document);
    }
    let ranges = api.ranges.clone();
    let stored = api.store.change(move |draft| put_off(draft, dry_run, |draft| create_in(draft, &ranges, resource, document))).await?;
    Ok(Answer::Object(201, stored))
}

/// An object is where its URL says; a document that says otherwise was sent to the wrong place.
pub(super) fn settle_namespace(resource: &Resource, document: &mut Value, namespace: &str) -> Result<()> {
    let given = text(document, "/metadata/namespace").to_owned();
    if !resource.namespaced {
        meta(document).shift_remove("namespace");
        return Ok(());
    }
    if !given.is_empty() && given != namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(message));
    }
    meta(document).insert("namespace".into(), namespace.into());
    Ok(())
}

/// Creates an object in a draft: complete, validate, allocate, store.
pub(crate) fn create_in(draft: &mut Draft, ranges: &Ranges, resource: &Resource, mut document: Value) -> Result<Arc<Stored>> {
    name_it(draft, resource, &mut document);
    metadata::begin(resource, &mut document);
    (resource.default)(&mut document);
    let name = text(&document, "/metadata/name").to_owned();
    let namespace = text(&document, "/metadata/namespace").to_owned();
    (resource.admit)(&mut document).map_err(|cause| Failure::forbidden(resource, &name, &cause))?;
    if resource.has_status {
        set_first_status(resource, &mut document);
    }
    schema::settle(&schema::stored_message_of(resource), &mut document);
    let mut errors = Errors::default();
    metadata::validate(resource, &document, &mut errors);
    (resource.validate)(&document, &mut errors);
    (resource.validate_new)(&document, &mut errors);
    if !errors.0.is_empty() {
        return Err(Failure::invalid(resource, &name, &errors.0));
    }
    let key = Key::new(resource, &namespace, &name);
    if draft.state.get(&key).is_some() {
        return Err(Failure::already_exists(resource, &name));
    }
    if resource.namespaced {
        require_namespace(draft, resource, &namespace, &name)?;
    }
    if resource.storage == SERVICES.storage {
        allocation::allocate(draft, ranges, &key, &mut document, None)?;
    }
    draft.put(resource, &key, document)
}

fn name_it(draft: &Draft, resource: &Resource, document: &mut Value) {
    let base = text(document, "/metadata/generateName").to_owned();
    if base.is_empty() || !text(document, "/metadata/name").is_empty() {
        return;
    }
    let namespace = text(document, "/metadata/namespace").to_owned();
    let free = |name: &String| draft.state.get(&Key::new(resource, &namespace, name)).is_none();
    let name = std::iter::repeat_with(|| metadata::generate_name(&base)).take(8).find(free);
    meta(document).insert("name".into(), name.unwrap_or_default().into());
}

fn set_first_status(resource: &Resource, document: &mut Value) {
    // A Node tells about itself when it registers.
    if resource.plural == "nodes" {
        return;
    }
    match (resource.first_status)(document) {
        Value::Null => _ = as_map(document).shift_remove("status"),
        status => _ = as_map(document).insert("status".into(), status),
    }
}

/// Nothing is created in a namespace that is not there, or about to go.
fn require_namespace(draft: &Draft, resource: &Resource, namespace: &str, name: &str) -> Result<()> {
    match draft.state.get(&Key::new(&NAMESPACES, "", namespace)) {
        None => Err(Failure::not_found(&NAMESPACES, namespace)),
        Some(stored) if stored.is_deleting => {
            let cause = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut failure = Failure::forbidden(resource, name, &cause);
            let message = format!("namespace {namespace} is being terminated");
            failure.details["causes"] = json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
            Err(failure)
        }
        Some(_) => Ok(()),
    }
}

/// The conflict is one of the binding, not of the pod.
fn already_bound(name: &str, node: &str) -> Failure {
    let mut failure = Failure::conflict(&PODS, name, "");
    failure.message = format!("Operation cannot be fulfilled on pods/binding {name:?}: pod {name} is already assigned to node {node:?}");
    failure.details["kind"] = "pods/binding".into();
    failure
}

/// Binds a pod to a node, as schedulers do.
pub(crate) async fn bind(api: &Api, target: &Target, query: &Query, body: Body) -> Result<Answer> {
    let dry_run = query.is_dry_run("CreateOptions")?;
    let node = text(&body.document, "/target/name").to_owned();
    let key = Key::new(&PODS, target.namespace.as_deref().unwrap_or_default(), target.name.as_deref().unwrap_or_default());
    if node.is_empty() {
        let mut errors = Errors::default();
        errors.required("target.name", "");
        return Err(Failure::invalid(&PODS, &key.name, &errors.0));
    }
    let operation = move |draft: &mut Draft| {
        let stored = draft.get(&PODS, &key)?;
        let mut document = stored.document();
        let current = text(&document, "/spec/nodeName").to_owned();
        if !current.is_empty() {
            return Err(already_bound(&key.name, &current));
        }
        child(&mut document, "spec").insert("nodeName".into(), node.into());
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now()});
        let conditions = child(&mut document, "status").entry("conditions").or_insert_with(|| json!([]));
        if let Value::Array(conditions) = conditions {
            conditions.push(scheduled);
        }
        draft.put(&PODS, &key, document)
    };
    api.store.change(move |draft| put_off(draft, dry_run, operation)).await?;
    Ok(Answer::Document(201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})))
}
