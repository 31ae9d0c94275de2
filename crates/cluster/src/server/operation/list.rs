//! Lists, whole or in pages. All pages of a list show the same moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Answer, Api};
use crate::server::document::text;
use crate::server::query::Query;
use crate::server::resource::Resource;
use crate::server::route::Target;
use crate::server::selector::{FieldSelector, LabelSelector, Selection};
use crate::server::status::{Failure, Result};
use crate::server::store::{Key, State, Stored};

/// How many moments are kept for lists that are read page by page.
const MOMENTS: usize = 32;

/// What a list is to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) selection: Selection,
    limit: usize,
    continuation: Option<Continuation>,
    revision: Option<u64>,
    is_exact: bool,
}

impl ListOptions {
    pub(crate) fn read(target: &Target, query: &Query) -> Result<Self> {
        let mut fields = FieldSelector::parse(query.get("fieldSelector"), target.resource)?;
        if let Some(name) = &target.name {
            fields = FieldSelector::parse(&format!("metadata.name={name}"), target.resource)?;
        }
        let labels = LabelSelector::parse(query.get("labelSelector"))?;
        let continuation = match query.get("continue") {
            "" => None,
            token => Some(Continuation::read(token)?),
        };
        let revision = query.revision("resourceVersion")?;
        let is_exact = match (query.get("resourceVersionMatch"), revision) {
            ("", _) => false,
            _ if continuation.is_some() => return Err(forbidden("resourceVersionMatch is forbidden when continue is provided")),
            (_, None) => return Err(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")),
            ("Exact", Some(0)) => return Err(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")),
            ("Exact", _) => true,
            ("NotOlderThan", _) => false,
            (other, _) => return Err(forbidden(&format!("resourceVersionMatch: Unsupported value: {other:?}"))),
        };
        if continuation.is_some() && revision.is_some_and(|revision| revision != 0) {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        let limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        Ok(Self { selection: Selection { labels, fields }, limit, continuation, revision, is_exact })
    }
}

fn forbidden(cause: &str) -> Failure {
    let message = format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: {cause}");
    let causes = json!([{"reason": "FieldValueForbidden", "message": format!("Forbidden: {cause}"), "field": "resourceVersionMatch"}]);
    Failure { code: 422, reason: "Invalid", message, details: json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}) }
}

/// Where the next page begins.
#[derive(Clone, Debug)]
struct Continuation {
    revision: u64,
    namespace: String,
    name: String,
}

impl Continuation {
    fn write(&self) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": [self.namespace, self.name]});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn read(token: &str) -> Result<Self> {
        let unreadable = || Failure::bad_request("continue key is not valid: it is not one that this server gave out");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_| unreadable())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| unreadable())?;
        let revision = token["rv"].as_u64().ok_or_else(unreadable)?;
        Ok(Self { revision, namespace: text(&token, "/start/0").to_owned(), name: text(&token, "/start/1").to_owned() })
    }
}

/// The moments that unfinished lists show.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<VecDeque<Arc<State>>>);

impl Pages {
    fn remember(&self, state: &Arc<State>) {
        let mut moments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if moments.iter().any(|moment| moment.revision() == state.revision()) {
            return;
        }
        if moments.len() == MOMENTS {
            moments.pop_front();
        }
        moments.push_back(state.clone());
    }

    fn recall(&self, revision: u64) -> Option<Arc<State>> {
        let moments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moments.iter().find(|moment| moment.revision() == revision).cloned()
    }
}

/// A list, or a page of it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// The token for the next page.
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// Lists objects.
pub(crate) fn list(api: &Api, target: &Target, options: &ListOptions) -> Result<Answer> {
    let state = moment(api, options)?;
    let resource = target.resource;
    let after = options.continuation.as_ref().map(|next| Key::new(resource, &next.namespace, &next.name));
    let mut found = state.list(resource, target.namespace.as_deref(), after).filter(|stored| options.selection.matches(stored));
    if options.limit == 0 {
        return Ok(Answer::List(Listed { items: found.cloned().collect(), revision: state.revision(), next: None, remaining: None }));
    }
    let items: Vec<Arc<Stored>> = found.by_ref().take(options.limit).cloned().collect();
    let rest = found.count();
    let last = items.last().filter(|_| rest > 0);
    let next = last.map(|last| continue_after(resource, last, state.revision()));
    if next.is_some() {
        api.pages.remember(&state);
    }
    // With a selector the original does not know how many are left.
    let remaining = Some(rest).filter(|rest| *rest > 0 && options.selection.is_everything());
    Ok(Answer::List(Listed { items, revision: state.revision(), next, remaining }))
}

fn continue_after(_: &Resource, last: &Stored, revision: u64) -> String {
    Continuation { revision, namespace: last.key.namespace.to_string(), name: last.key.name.to_string() }.write()
}

/// The moment that a list is to show.
fn moment(api: &Api, options: &ListOptions) -> Result<Arc<State>> {
    let state = api.store.state();
    if let Some(next) = &options.continuation {
        let message = "The provided continue parameter is too old to display a consistent list result. You must start a new list without \
             the continue parameter.";
        return match next.revision == state.revision() {
            true => Ok(state),
            false => api.pages.recall(next.revision).ok_or_else(|| Failure::expired(message)),
        };
    }
    match options.revision {
        Some(revision) if revision > state.revision() => Err(Failure::too_large_version(revision, state.revision())),
        Some(revision) if options.is_exact && revision != state.revision() => {
            let message = format!("The resourceVersion for the provided list is too old: {revision}");
            api.pages.recall(revision).ok_or_else(|| Failure::expired(message))
        }
        _ => Ok(state),
    }
}
