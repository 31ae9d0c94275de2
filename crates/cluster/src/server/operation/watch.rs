//! Following what happens to objects.
//!
//! A watcher is at a revision and asks for what came after it. Nothing is queued for it: one that reads slowly only falls
//! behind, and is told to list anew once the history does not reach back to where it is.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

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
use crate::server::store::{Event, EventKind, Store, Stored};

/// How often a client that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long a watch lasts that does not say.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// How much is sent at once, about. Lines are put together when they are sent and are kept nowhere, however many follow.
const PIECE: usize = 16 << 10;

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
    /// What was there when the watch began and has not been told yet.
    initial: vec::IntoIter<Arc<Stored>>,
    /// Whether the end of that has to be told too.
    owes_end_of_initial: bool,
    /// Everything up to here has been told.
    at: u64,
    /// The lines that are sent next.
    piece: Vec<u8>,
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
        let from_scratch = options.revision.is_none_or(|revision| revision == 0);
        let is_initial = options.initial_events.unwrap_or(from_scratch);
        let initial: Vec<Arc<Stored>> = match is_initial {
            true => state.list(target.resource, options.namespace.as_deref(), None).cloned().collect(),
            false => Vec::new(),
        };
        Self {
            revisions: api.store.revisions(),
            store: api,
            resource: target.resource,
            initial: initial.into_iter(),
            owes_end_of_initial: options.initial_events == Some(true) && options.bookmarks,
            at: options.revision.filter(|_| !is_initial && !from_scratch).unwrap_or(state.revision()),
            piece: Vec::new(),
            end: now + options.timeout,
            next_bookmark: now + BOOKMARK_EVERY,
            has_ended: false,
            options,
            render,
        }
    }

    fn store(&self) -> &Store {
        &self.store.store
    }

    /// The next lines for the client; none when it is over.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.tell_initial();
            if self.piece.is_empty() && !self.has_ended {
                self.revisions.borrow_and_update();
                self.catch_up();
            }
            if !self.piece.is_empty() {
                return Some(std::mem::take(&mut self.piece).into());
            }
            if self.has_ended {
                return None;
            }
            self.wait().await;
        }
    }

    /// The objects there were, as if they had just been added.
    fn tell_initial(&mut self) {
        while self.piece.len() < PIECE {
            let Some(stored) = self.initial.next() else {
                if std::mem::take(&mut self.owes_end_of_initial) {
                    self.tell_bookmark(Some("k8s.io/initial-events-end"));
                }
                return;
            };
            if self.options.selection.matches(&stored) {
                self.tell(EventKind::Added, &stored);
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
                self.tell_bookmark(None);
            }
        }
    }

    /// The time is over. A client that takes bookmarks learns how far it has come.
    fn finish(&mut self) {
        self.has_ended = true;
        self.catch_up();
        if self.options.bookmarks {
            self.tell_bookmark(None);
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
            write_event(&mut self.piece, "ERROR", &Failure::expired(message).to_value());
            self.has_ended = true;
            return;
        };
        for event in events {
            self.tell_event(event);
            if self.piece.len() >= PIECE {
                self.at = event.revision;
                return;
            }
        }
        self.at = state.revision();
    }

    /// What an event is to this client: objects come into its selection and leave it.
    fn tell_event(&mut self, event: &Event) {
        if self.options.namespace.as_ref().is_some_and(|namespace| **namespace != *event.current.key.namespace) {
            return;
        }
        let selects = |stored: &Stored| self.options.selection.matches(stored);
        let previous = event.previous.as_deref().filter(|previous| selects(previous));
        let is = !event.is_removal() && selects(&event.current);
        match (previous, is) {
            (None, false) => {}
            (None, true) => self.tell(EventKind::Added, &event.current),
            (Some(_), true) => self.tell(EventKind::Modified, &event.current),
            (Some(_), false) if event.is_removal() => self.tell(EventKind::Deleted, &event.current),
            (Some(previous), false) => self.tell(EventKind::Deleted, &previous.at_revision(self.resource, event.revision)),
        }
    }

    fn tell(&mut self, kind: EventKind, stored: &Stored) {
        if let Some(render) = &self.render {
            return write_event(&mut self.piece, kind.name(), &render(self.resource, stored));
        }
        if self.resource.view.is_some() {
            return write_event(&mut self.piece, kind.name(), &shown(self.resource, stored));
        }
        let opening = self.resource.opening();
        let rest = stored.bytes.get(1..).unwrap_or_default();
        for part in [b"{\"type\":\"", kind.name().as_bytes(), b"\",\"object\":", opening.as_bytes(), rest, b"}\n"] {
            self.piece.extend_from_slice(part);
        }
    }

    fn tell_bookmark(&mut self, annotation: Option<&str>) {
        let mut meta = json!({"resourceVersion": self.at.to_string(), "creationTimestamp": null});
        if let Some(annotation) = annotation {
            meta["annotations"] = json!({annotation: "true"});
        }
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": meta});
        write_event(&mut self.piece, "BOOKMARK", &object);
    }
}

fn write_event(piece: &mut Vec<u8>, kind: &str, object: &Value) {
    piece.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").as_bytes());
}
