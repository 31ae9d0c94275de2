//! Reading one object.

use super::{Answer, Api};
use crate::server::query::Query;
use crate::server::route::Target;
use crate::server::status::{Failure, Result};
use crate::server::store::Key;

/// The object as it is now.
pub(crate) fn get(api: &Api, target: &Target, query: &Query) -> Result<Answer> {
    let state = api.store.state();
    if let Some(revision) = query.revision("resourceVersion")?.filter(|revision| *revision > state.revision()) {
        return Err(Failure::too_large_version(revision, state.revision()));
    }
    let name = target.name.as_deref().unwrap_or_default();
    let key = Key::new(target.resource, target.namespace.as_deref().unwrap_or_default(), name);
    let stored = state.get(&key).cloned().ok_or_else(|| Failure::not_found(target.resource, name))?;
    Ok(Answer::Object(200, stored))
}
