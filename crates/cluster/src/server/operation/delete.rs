//! Deleting objects: at once, gracefully, or when nobody needs them any more.
//!
//! An object with finalizers stays, marked with the time of its deletion, until the last of them is gone. A pod on a node stays
//! for its grace period, until the node says that it has ended.

use std::sync::Arc;

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::list::ListOptions;
use super::{Answer, Api, metadata};
use crate::server::document::{child, list, metadata as meta, number, text, timestamp};
use crate::server::field::Errors;
use crate::server::query::Query;
use crate::server::resource::{NAMESPACES, PODS, Resource, SERVICE_CIDRS};
use crate::server::route::Target;
use crate::server::status::{self, Failure, Result};
use crate::server::store::{Draft, Key, Stored, put_off};

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    /// The finalizer that says what becomes of dependents; none deletes them in the background.
    pub(crate) propagation: Option<&'static str>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from the URL and from the document in the body, which wins.
    pub(crate) fn read(query: &Query, body: &Value) -> Result<Self> {
        if !matches!(text(body, "/kind"), "" | "DeleteOptions") {
            return Err(Failure::bad_request("decoded object cannot be converted to DeleteOptions"));
        }
        let grace = number(body, "/gracePeriodSeconds").or(query.number("gracePeriodSeconds")?);
        // Less than nothing is as little as there is.
        let grace = grace.map(|grace| if grace < 0 { 1 } else { grace });
        let own = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            grace_seconds: grace,
            propagation: read_propagation(query, body)?,
            uid: own("/preconditions/uid"),
            resource_version: own("/preconditions/resourceVersion"),
            dry_run: query.is_dry_run("DeleteOptions")? || list(body, "/dryRun").iter().any(|item| item == "All"),
        })
    }
}

/// The finalizer of a propagation policy, which there is an older word for.
fn read_propagation(query: &Query, body: &Value) -> Result<Option<&'static str>> {
    let policy = match text(body, "/propagationPolicy") {
        "" => query.get("propagationPolicy"),
        policy => policy,
    };
    let orphan =
        body["orphanDependents"].as_bool().or((!query.get("orphanDependents").is_empty()).then(|| query.is_set("orphanDependents")));
    let mut errors = Errors::default();
    if !policy.is_empty() {
        if orphan.is_some() {
            errors.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set");
        }
        errors.one_of("propagationPolicy", &policy.into(), &["Foreground", "Background", "Orphan", "nil"]);
    }
    if !errors.0.is_empty() {
        return Err(Failure::invalid_option("DeleteOptions", &errors));
    }
    Ok(match policy {
        "" if orphan == Some(true) => Some("orphan"),
        "Orphan" => Some("orphan"),
        "Foreground" => Some("foregroundDeletion"),
        _ => None,
    })
}

/// What deleting led to.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object is gone; this is what it was.
    Gone(Arc<Stored>),
    /// It will be, once its grace period or its finalizers end.
    Marked(Arc<Stored>),
}

/// Deletes one object.
pub(crate) async fn delete(api: &Api, target: &Target, options: DeleteOptions) -> Result<Answer> {
    let resource = target.resource;
    let name = target.name.as_deref().unwrap_or_default();
    let key = Key::new(resource, target.namespace.as_deref().unwrap_or_default(), name);
    let dry_run = options.dry_run;
    let operation = move |draft: &mut Draft| {
        let stored = draft.get(resource, &key)?;
        delete_in(draft, resource, &stored, &options)
    };
    Ok(match api.store.change(move |draft| put_off(draft, dry_run, operation)).await? {
        Deletion::Marked(stored) => Answer::Object(200, stored),
        // Of most resources the end is only told; of these the object is shown.
        Deletion::Gone(stored) if matches!(resource.plural, "pods" | "services" | "serviceaccounts") => Answer::Object(200, stored),
        Deletion::Gone(stored) => Answer::Document(200, status::deleted(resource, &stored.key.name, &stored.uid)),
    })
}

/// Deletes all objects of a list.
pub(crate) async fn delete_collection(api: &Api, target: &Target, selected: ListOptions, options: DeleteOptions) -> Result<Answer> {
    let (resource, namespace, dry_run) = (target.resource, target.namespace.clone(), options.dry_run);
    let operation = move |draft: &mut Draft| {
        let before = draft.state.clone();
        let all = before.list(resource, namespace.as_deref(), None).filter(|stored| selected.selection.matches(stored));
        let all: Vec<Arc<Stored>> = all.cloned().collect();
        for stored in &all {
            delete_in(draft, resource, stored, &options)?;
        }
        Ok((all, draft.state.revision()))
    };
    let (items, revision) = api.store.change(move |draft| put_off(draft, dry_run, operation)).await?;
    Ok(Answer::List(super::Listed { items, revision, next: None, remaining: None }))
}

/// Deletes an object in a draft.
pub(crate) fn delete_in(draft: &mut Draft, resource: &Resource, stored: &Arc<Stored>, options: &DeleteOptions) -> Result<Deletion> {
    check_preconditions(resource, stored, options)?;
    if std::ptr::eq(resource, &NAMESPACES) && matches!(&*stored.key.name, "default" | "kube-system" | "kube-public") {
        return Err(Failure::forbidden(resource, &stored.key.name, "this namespace may not be deleted"));
    }
    if std::ptr::eq(resource, &SERVICE_CIDRS) {
        let cause = "Services get their addresses from it for as long as this server runs";
        return Err(Failure::forbidden(resource, &stored.key.name, cause));
    }
    let mut document = stored.document();
    add_finalizer(&mut document, options.propagation);
    let grace = grace_seconds(resource, &document, options);
    let is_kept = !list(&document, "/metadata/finalizers").is_empty() || is_namespace_in_use(resource, &document);
    if grace == 0 && !is_kept {
        let last = match std::ptr::eq(resource, &PODS) {
            // A pod is marked even if it is not given any time, so its last state says so.
            true => {
                mark(resource, &mut document, grace);
                draft.put(resource, &stored.key, document)?
            }
            false => stored.clone(),
        };
        return Ok(Deletion::Gone(draft.remove(resource, &last)));
    }
    mark(resource, &mut document, grace);
    Ok(Deletion::Marked(draft.put(resource, &stored.key, document)?))
}

fn check_preconditions(resource: &Resource, stored: &Stored, options: &DeleteOptions) -> Result<()> {
    let failed = |what: &str, given: &str, actual: &str, hint: &str| {
        let cause = format!("the {what} in the precondition ({given}) does not match the {what} in record ({actual}). {hint}");
        let mut failure = Failure::conflict(resource, &stored.key.name, &cause);
        failure.message = format!("Operation cannot be fulfilled on {} {:?}: {cause}", resource.kind, stored.key.name);
        Err(failure)
    };
    let revision = stored.revision.to_string();
    match (&options.uid, &options.resource_version) {
        (Some(uid), _) if **uid != *stored.uid => failed("UID", uid, &stored.uid, "The object might have been deleted and then recreated"),
        (_, Some(version)) if *version != revision => failed("ResourceVersion", version, &revision, "The object might have been modified"),
        _ => Ok(()),
    }
}

fn add_finalizer(document: &mut Value, finalizer: Option<&str>) {
    let Some(finalizer) = finalizer else { return };
    let slot = meta(document).entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = slot
        && !finalizers.iter().any(|present| present == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

/// How long an object may take to end. Only a pod that runs on a node takes any time.
fn grace_seconds(resource: &Resource, document: &Value, options: &DeleteOptions) -> i64 {
    let has_ended = matches!(text(document, "/status/phase"), "Succeeded" | "Failed");
    if !std::ptr::eq(resource, &PODS) || text(document, "/spec/nodeName").is_empty() || has_ended {
        return 0;
    }
    let own = number(document, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    let asked = options.grace_seconds.unwrap_or(own);
    // Who deletes again may shorten the time, never lengthen it.
    match number(document, "/metadata/deletionGracePeriodSeconds") {
        Some(current) if options.grace_seconds.is_none() => current,
        Some(current) => asked.min(current),
        None => asked,
    }
}

fn is_namespace_in_use(resource: &Resource, document: &Value) -> bool {
    std::ptr::eq(resource, &NAMESPACES) && !list(document, "/spec/finalizers").is_empty()
}

/// Notes the time of deletion.
fn mark(resource: &Resource, document: &mut Value, grace: i64) {
    let is_marked = !text(document, "/metadata/deletionTimestamp").is_empty();
    let is_shorter = number(document, "/metadata/deletionGracePeriodSeconds").is_some_and(|current| grace < current);
    if is_marked && !is_shorter {
        return;
    }
    let moment = OffsetDateTime::now_utc() + time::Duration::seconds(grace.min(1 << 32));
    meta(document).insert("deletionTimestamp".into(), timestamp(moment).into());
    // A namespace has no grace period, so the original shows none.
    if std::ptr::eq(resource, &NAMESPACES) {
        child(document, "status").insert("phase".into(), "Terminating".into());
    } else {
        meta(document).insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    if resource.has_generation && !is_marked {
        metadata::bump_generation(document);
    }
}

/// Stores a changed object, or removes it if this was all that it waited for. Followers are then told of its end only.
pub(crate) fn put_or_finish(draft: &mut Draft, resource: &Resource, stored: &Arc<Stored>, document: Value) -> Result<Arc<Stored>> {
    let is_running = number(&document, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) > 0;
    let is_kept = !list(&document, "/metadata/finalizers").is_empty() || is_namespace_in_use(resource, &document);
    if !stored.is_deleting || is_running || is_kept {
        return draft.put(resource, &stored.key, document);
    }
    Ok(draft.finish(resource, stored, document))
}
