//! Lists, whole or in pages. All pages of a list show the same moment.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Answer, Api};
use crate::server::document::text;
use crate::server::field::Errors;
use crate::server::query::Query;
use crate::server::route::Target;
use crate::server::selector::{FieldSelector, LabelSelector, Selection};
use crate::server::status::{Failure, Result};
use crate::server::store::{Key, State, Stored};

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
        let selection = read_selection(target, query)?;
        let limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        query.number("timeoutSeconds")?;
        check_match(query)?;
        let revision = query.revision("resourceVersion")?;
        let continuation = match query.get("continue") {
            "" => None,
            token => Some(Continuation::read(token)?),
        };
        if continuation.is_some() && revision.is_some_and(|revision| revision != 0) {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        // Whoever takes any version gets all of it at once.
        let limit = if revision == Some(0) { 0 } else { limit };
        Ok(Self { selection, limit, continuation, revision, is_exact: query.get("resourceVersionMatch") == "Exact" })
    }
}

/// The selectors of a list or a watch. A path with a name selects by it.
pub(super) fn read_selection(target: &Target, query: &Query) -> Result<Selection> {
    let mut fields = FieldSelector::parse(query.get("fieldSelector"), target.resource)?;
    if let Some(name) = &target.name {
        fields = FieldSelector::parse(&format!("metadata.name={name}"), target.resource)?;
    }
    Ok(Selection { labels: LabelSelector::parse(query.get("labelSelector"))?, fields })
}

/// How a version is to be matched depends on which version it is.
fn check_match(query: &Query) -> Result<()> {
    let field = "resourceVersionMatch";
    let (wanted, version) = (query.get(field), query.get("resourceVersion"));
    let mut errors = Errors::default();
    if !wanted.is_empty() {
        if version.is_empty() {
            errors.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !query.get("continue").is_empty() {
            errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided");
        }
        errors.one_of(field, &wanted.into(), &["Exact", "NotOlderThan", ""]);
        if wanted == "Exact" && version == "0" {
            errors.forbidden(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if !query.get("sendInitialEvents").is_empty() {
        errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    match errors.0.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid_option("ListOptions", &errors)),
    }
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
        let unreadable = |cause: String| Failure::bad_request(format!("invalid continue token: continue key is not valid: {cause}"));
        let no_base64 = |error| match error {
            base64::DecodeError::InvalidByte(at, _) => at,
            _ => token.len(),
        };
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|error| unreadable(format!("illegal base64 data at input byte {}", no_base64(error))))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        let version = text(&token, "/v");
        let foreign = || unreadable(format!("server does not recognize this encoded version {version:?}"));
        let revision = token["rv"].as_u64().ok_or_else(foreign)?;
        Ok(Self { revision, namespace: text(&token, "/start/0").to_owned(), name: text(&token, "/start/1").to_owned() })
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
    let resource = target.resource;
    let state = moment(api, resource.storage, options)?;
    let after = options.continuation.as_ref().map(|next| Key::new(resource, &next.namespace, &next.name));
    let mut found = state.list(resource, target.namespace.as_deref(), after).filter(|stored| options.selection.matches(stored));
    if options.limit == 0 {
        return Ok(Answer::List(Listed { items: found.cloned().collect(), revision: state.revision(), next: None, remaining: None }));
    }
    let items: Vec<Arc<Stored>> = found.by_ref().take(options.limit).cloned().collect();
    let rest = found.count();
    let last = items.last().filter(|_| rest > 0);
    let next = last.map(|last| continue_after(last, state.revision()));
    // With a selector the original does not know how many are left.
    let remaining = Some(rest).filter(|rest| *rest > 0 && options.selection.is_everything());
    Ok(Answer::List(Listed { items, revision: state.revision(), next, remaining }))
}

fn continue_after(last: &Stored, revision: u64) -> String {
    Continuation { revision, namespace: last.key.namespace.to_string(), name: last.key.name.to_string() }.write()
}

/// The moment that a list is to show, as far as its resource goes.
fn moment(api: &Api, storage: u8, options: &ListOptions) -> Result<Arc<State>> {
    let state = api.store.state();
    if let Some(next) = &options.continuation {
        let message = "The provided continue parameter is too old to display a consistent list result. You must start a new list without \
             the continue parameter.";
        return past(state, storage, next.revision).ok_or_else(|| Failure::expired(message));
    }
    match options.revision {
        Some(revision) if revision > state.revision() => Err(Failure::too_large_version(revision, state.revision())),
        Some(revision) if options.is_exact => {
            let message = format!("The resourceVersion for the provided list is too old: {revision}");
            past(state, storage, revision).ok_or_else(|| Failure::expired(message))
        }
        _ => Ok(state),
    }
}

/// The state as it was at a revision; none if that is too long ago, or yet to come.
fn past(state: Arc<State>, storage: u8, revision: u64) -> Option<Arc<State>> {
    match revision == state.revision() {
        true => Some(state),
        false => state.as_of(storage, revision).map(Arc::new),
    }
}
