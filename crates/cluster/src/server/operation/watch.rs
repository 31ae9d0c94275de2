//! Following what happens to objects.
//!
//! A watcher is at a revision and asks for what came after it. Nothing is queued for it: one that reads slowly only falls
//! behind, and is told to list anew once the history does not reach back to where it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::list::read_selection;
use super::shown;
use crate::server::field::Errors;
use crate::server::query::{Query, no_revision};
use crate::server::resource::Resource;
use crate::server::route::Target;
use crate::server::selector::Selection;
use crate::server::status::{Failure, Result};
use crate::server::store::{Event, EventKind, State, Store, Stored};

/// How often a client that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long a watch lasts that does not say.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// How many events are read from the history at once.
const BATCH: usize = 128;

/// What to follow.
#[derive(Clone, Debug)]
pub(crate) struct WatchOptions {
    selection: Selection,
    namespace: Option<String>,
    revision: Option<u64>,
    bookmarks: bool,
    initial_events: Option<bool>,
    timeout: Duration,
}

impl WatchOptions {
    pub(crate) fn read(target: &Target, query: &Query) -> Result<Self> {
        let initial_events = match query.get("sendInitialEvents") {
            "" => None,
            _ => Some(query.is_set("sendInitialEvents")),
        };
        let selection = read_selection(target, query)?;
        check_match(query, initial_events)?;
        let revision = match query.get("resourceVersion") {
            "" => None,
            text => Some(text.parse().map_err(|_| Failure::unreasoned(no_revision("resourceVersion", text)))?),
        };
        let seconds = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
        Ok(Self {
            selection,
            namespace: target.namespace.clone(),
            revision,
            bookmarks: query.is_set("allowWatchBookmarks"),
            initial_events,
            timeout: seconds.map_or(LONGEST, Duration::from_secs),
        })
    }
}

/// How a version is to be matched goes with initial events, and with nothing else.
fn check_match(query: &Query, initial_events: Option<bool>) -> Result<()> {
    let field = "resourceVersionMatch";
    let wanted = query.get(field);
    let mut errors = Errors::default();
    if initial_events.is_some() && wanted != "NotOlderThan" {
        errors.forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if !wanted.is_empty() {
        if initial_events.is_none() {
            errors.forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        errors.one_of(field, &wanted.into(), &["NotOlderThan"]);
        if !query.get("continue").is_empty() {
            errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided");
        }
    }
    match errors.0.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid_option("ListOptions", &errors)),
    }
}

/// How a watcher shows an object to its client.
pub(crate) type Render = Arc<dyn Fn(&Resource, &Stored) -> Value + Send + Sync>;

/// A client that follows a resource.
pub(crate) struct Watcher {
    store: Arc<super::Api>,
    resource: &'static Resource,
    options: WatchOptions,
    render: Option<Render>,
    /// Everything up to here has been told.
    at: u64,
    ready: VecDeque<Bytes>,
    revisions: tokio::sync::watch::Receiver<u64>,
    end: Instant,
    next_bookmark: Instant,
    has_ended: bool,
}

impl Watcher {
    /// Begins to follow. What cannot be followed is told as an event, since the answer has begun by then.
    pub(crate) fn new(api: Arc<super::Api>, target: &Target, options: WatchOptions, render: Option<Render>) -> Self {
        let state = api.store.state();
        let now = Instant::now();
        let mut watcher = Self {
            revisions: api.store.revisions(),
            store: api,
            resource: target.resource,
            at: options.revision.unwrap_or(0),
            ready: VecDeque::new(),
            end: now + options.timeout,
            next_bookmark: now + BOOKMARK_EVERY,
            has_ended: false,
            options,
            render,
        };
        let from_scratch = watcher.options.revision.is_none_or(|revision| revision == 0);
        if watcher.options.initial_events.unwrap_or(from_scratch) {
            watcher.tell_everything(&state);
        } else if from_scratch {
            watcher.at = state.revision();
        }
        watcher
    }

    fn store(&self) -> &Store {
        &self.store.store
    }

    /// The objects there are, as if they had just been added.
    fn tell_everything(&mut self, state: &State) {
        let all: Vec<Arc<Stored>> = state.list(self.resource, self.options.namespace.as_deref(), None).cloned().collect();
        for stored in all.iter().filter(|stored| self.options.selection.matches(stored)) {
            let line = self.line(EventKind::Added, stored);
            self.ready.push_back(line);
        }
        self.at = state.revision();
        if self.options.initial_events == Some(true) && self.options.bookmarks {
            self.ready.push_back(self.bookmark(Some("k8s.io/initial-events-end")));
        }
    }

    /// The next line for the client; none when it is over.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.has_ended {
                return None;
            }
            self.revisions.borrow_and_update();
            self.catch_up();
            if self.ready.is_empty() && !self.has_ended {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        let bookmark = self.options.bookmarks;
        tokio::select! {
            changed = self.revisions.changed() => self.has_ended = changed.is_err(),
            () = tokio::time::sleep_until(self.end) => self.finish(),
            () = tokio::time::sleep_until(self.next_bookmark), if bookmark => {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                self.catch_up();
                self.ready.push_back(self.bookmark(None));
            }
        }
    }

    /// The time is over. A client that takes bookmarks learns how far it has come.
    fn finish(&mut self) {
        self.has_ended = true;
        self.catch_up();
        if self.options.bookmarks {
            self.ready.push_back(self.bookmark(None));
        }
    }

    /// Makes lines of what came after the revision the watcher is at.
    fn catch_up(&mut self) {
        let state = self.store().state();
        if self.at >= state.revision() {
            return;
        }
        let Some(events) = state.events_after(self.resource.storage, self.at) else {
            let message = format!("too old resource version: {} ({})", self.at, state.oldest(self.resource.storage));
            self.ready.push_back(event_line("ERROR", &Failure::expired(message).to_value()));
            self.has_ended = true;
            return;
        };
        let mut count = 0;
        let mut reached = state.revision();
        for event in events {
            if let Some(line) = self.told(event) {
                self.ready.push_back(line);
            }
            count += 1;
            if count == BATCH {
                reached = event.revision;
                break;
            }
        }
        self.at = reached;
    }

    /// What an event is to this client: objects come into its selection and leave it.
    fn told(&self, event: &Event) -> Option<Bytes> {
        if self.options.namespace.as_ref().is_some_and(|namespace| **namespace != *event.current.key.namespace) {
            return None;
        }
        let selects = |stored: &Stored| self.options.selection.matches(stored);
        let was = event.previous.as_deref().is_some_and(selects);
        let is = !event.is_removal() && selects(&event.current);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.shared(event, EventKind::Added)),
            (true, true) => Some(self.shared(event, EventKind::Modified)),
            (true, false) if event.is_removal() => Some(self.shared(event, EventKind::Deleted)),
            (true, false) => {
                let left = event.previous.as_ref()?.at_revision(self.resource, event.revision);
                Some(self.line(EventKind::Deleted, &left))
            }
        }
    }

    /// The line of an event, which most watchers have in common.
    fn shared(&self, event: &Event, kind: EventKind) -> Bytes {
        let is_common = self.render.is_none() && self.resource.view.is_none() && kind == event.kind;
        match is_common {
            true => event.line.get_or_init(|| self.line(kind, &event.current)).clone(),
            false => self.line(kind, &event.current),
        }
    }

    fn line(&self, kind: EventKind, stored: &Stored) -> Bytes {
        if let Some(render) = &self.render {
            return event_line(kind.name(), &render(self.resource, stored));
        }
        if self.resource.view.is_some() {
            return event_line(kind.name(), &shown(self.resource, stored));
        }
        let opening = self.resource.opening();
        let rest = stored.bytes.get(1..).unwrap_or_default();
        let mut line = Vec::with_capacity(40 + opening.len() + rest.len());
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(kind.name().as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        line.extend_from_slice(opening.as_bytes());
        line.extend_from_slice(rest);
        line.extend_from_slice(b"}\n");
        line.into()
    }

    fn bookmark(&self, annotation: Option<&str>) -> Bytes {
        let mut meta = json!({"resourceVersion": self.at.to_string(), "creationTimestamp": null});
        if let Some(annotation) = annotation {
            meta["annotations"] = json!({annotation: "true"});
        }
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": meta});
        event_line("BOOKMARK", &object)
    }
}

fn event_line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}
