//! Patching objects: the change is made to what is there at that very moment, so nobody has to try again.

use serde_json::Value;

use super::update::{Part, replace_in};
use super::{Answer, Api, scale, shown};
use crate::server::body;
use crate::server::document::text;
use crate::server::patch::Patch;
use crate::server::query::Query;
use crate::server::resource::Resource;
use crate::server::route::Target;
use crate::server::status::{Failure, Result};
use crate::server::store::{Draft, Key, Stored, put_off};

/// Applies a patch to a part of an object.
pub(crate) async fn patch(api: &Api, target: &Target, part: Part, query: &Query, patch: Patch) -> Result<Answer> {
    let resource = target.resource;
    let dry_run = query.is_dry_run("PatchOptions")?;
    let name = target.name.as_deref().unwrap_or_default();
    let key = Key::new(resource, target.namespace.as_deref().unwrap_or_default(), name);
    let ranges = api.ranges.clone();
    let operation = move |draft: &mut Draft| {
        let stored = draft.get(resource, &key)?;
        let patched = patched(resource, part, &stored, &patch)?;
        match part {
            Part::Scale => scale::set_in(draft, &ranges, resource, &key, &patched),
            _ => replace_in(draft, &ranges, resource, &key, part, patched),
        }
    };
    let stored = api.store.change(move |draft| put_off(draft, dry_run, operation)).await?;
    Ok(match part {
        Part::Scale => Answer::Document(200, scale::scale_of(&stored)),
        _ => Answer::Object(200, stored),
    })
}

/// The document after the patch, in the shape in which it is stored.
fn patched(resource: &Resource, part: Part, stored: &Stored, patch: &Patch) -> Result<Value> {
    if part == Part::Scale {
        return patch.apply(scale::scale_of(stored));
    }
    let before = shown(resource, stored);
    let mut after = patch.apply(before.clone())?;
    body::check_type(resource, &after)?;
    body::conform(resource, &mut after).map_err(|cause| Failure::invalid_patch(&after.to_string(), &cause))?;
    let at = |document: &Value, key: &str| text(document, &format!("/metadata/{key}")).to_owned();
    if at(&before, "namespace") != at(&after, "namespace") {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(message));
    }
    let (given, name) = (at(&after, "name"), at(&before, "name"));
    if given != name {
        return Err(Failure::bad_request(format!("the name of the object ({given}) does not match the name on the URL ({name})")));
    }
    if let Some(view) = resource.view {
        (view.inward)(&mut after);
    }
    Ok(after)
}
