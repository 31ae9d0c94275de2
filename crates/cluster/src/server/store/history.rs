//! What happened lately to the objects of one resource, so that followers can resume.

use std::sync::Arc;

use imbl::Vector;

use super::state::Stored;

/// How many events are remembered, and how many bytes of them.
const LONGEST: usize = 8192;
const LARGEST: usize = 16 << 20;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of one object.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) revision: u64,
    pub(crate) previous: Option<Arc<Stored>>,
    /// The object as it is, or as it was when it was removed.
    pub(crate) current: Arc<Stored>,
}

impl Event {
    pub(crate) fn new(kind: EventKind, previous: Option<Arc<Stored>>, current: Arc<Stored>) -> Self {
        Self { kind, revision: current.revision, previous, current }
    }

    pub(crate) fn is_removal(&self) -> bool {
        self.kind == EventKind::Deleted
    }
}

/// The last events of one resource, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    events: Vector<Arc<Event>>,
    bytes: usize,
    /// The revision of the last event that was dropped.
    forgotten: u64,
}

impl History {
    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.current.bytes.len();
        self.events.push_back(event);
        while self.events.len() > LONGEST || (self.bytes > LARGEST && self.events.len() > 1) {
            let Some(dropped) = self.events.pop_front() else { break };
            self.bytes -= dropped.current.bytes.len();
            self.forgotten = dropped.revision;
        }
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The events after a revision.
    pub(super) fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Event>> {
        let first = match self.events.binary_search_by(|event| event.revision.cmp(&revision)) {
            Ok(at) => at + 1,
            Err(at) => at,
        };
        // Followers are mostly at the end; a walk from there is shorter than one from the front.
        let count = self.events.len() - first;
        self.events.focus().narrow(first..).into_iter().take(count)
    }
}
