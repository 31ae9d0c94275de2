//! The scale of Deployments and ReplicaSets: how many, and of what.

use serde_json::{Value, json};

use super::update::{Part, replace_in};
use super::{Answer, Api};
use crate::server::document::{child, metadata, number, text};
use crate::server::field::Errors;
use crate::server::route::Target;
use crate::server::selector::LabelSelector;
use crate::server::status::{Failure, Result};
use crate::server::store::{Draft, Key, Stored, put_off};

/// The `Scale` of an object.
pub(crate) fn scale_of(stored: &Stored) -> Value {
    let document = stored.document();
    let meta = &document["metadata"];
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"], "creationTimestamp": meta["creationTimestamp"],
        },
        "spec": match number(&document, "/spec/replicas") {
            None | Some(0) => json!({}),
            Some(replicas) => json!({"replicas": replicas}),
        },
        "status": {
            "replicas": number(&document, "/status/replicas").unwrap_or(0),
            "selector": LabelSelector::of_document(&document["spec"]["selector"]).to_string(),
        },
    })
}

/// Sets the number of replicas from a `Scale`.
pub(super) async fn replace(api: &Api, target: &Target, key: &Key, scale: Value, dry_run: bool) -> Result<Answer> {
    let (key, resource, ranges) = (key.clone(), target.resource, api.ranges.clone());
    let operation = move |draft: &mut Draft| set_in(draft, &ranges, resource, &key, &scale);
    let stored = api.store.change(move |draft| put_off(draft, dry_run, operation)).await?;
    Ok(Answer::Document(200, scale_of(&stored)))
}

/// Sets the number of replicas in a draft.
pub(super) fn set_in(
    draft: &mut Draft,
    ranges: &crate::server::allocation::Ranges,
    resource: &'static crate::server::resource::Resource,
    key: &Key,
    scale: &Value,
) -> Result<std::sync::Arc<Stored>> {
    let replicas = number(scale, "/spec/replicas").unwrap_or(0);
    if replicas < 0 {
        let mut errors = Errors::default();
        errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Failure::invalid_kind("autoscaling", "Scale", &key.name, &errors.0));
    }
    let mut document = draft.get(resource, key)?.document();
    let version = text(scale, "/metadata/resourceVersion").to_owned();
    metadata(&mut document).insert("resourceVersion".into(), version.into());
    child(&mut document, "spec").insert("replicas".into(), replicas.into());
    replace_in(draft, ranges, resource, key, Part::Scale, document)
}
