//! What hnsd keeps on disk: a journal whose content is the state.
//!
//! The file, its checksums and its compaction are those of the crate `journal`; here is what stands in a frame.

mod entry;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use hcn::Guid;
use hcn::api::Kind;
use journal::{Content, Format, Snapshot};

use crate::record::AnyRecord;
use crate::state::State;

pub use journal::JournalError;

/// The file's name inside the state directory.
pub const FILE_NAME: &str = "hns.journal";

impl Content for State {
    const FORMAT: Format = Format { magic: b"transom-hns\0", number: 1, file_name: FILE_NAME, owner: "hnsd" };

    fn empty() -> Self {
        Self::new()
    }

    fn apply(&mut self, payload: &[u8]) -> Result<(), String> {
        entry::apply(payload, self)
    }

    fn write(&self, snapshot: &mut Snapshot<'_>) -> io::Result<()> {
        snapshot.entry(|frame| entry::management_macs(frame, &self.management_macs))?;
        snapshot.entry(|frame| entry::counters(frame, self))?;
        self.iter().try_for_each(|record| snapshot.entry(|frame| entry::put(frame, &record)))
    }
}

/// One change to the store.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(AnyRecord),
    Remove(Kind, Guid),
    ManagementMacs(Vec<String>),
}

impl Change {
    /// The object it is about; none for what is not an object.
    fn object(&self) -> Option<(Kind, Guid)> {
        match self {
            Self::Put(record) => Some((record.kind(), record.id())),
            Self::Remove(kind, id) => Some((*kind, *id)),
            Self::ManagementMacs(_) => None,
        }
    }
}

/// The store of one service.
#[derive(Debug)]
pub struct Journal(journal::Journal);

impl Journal {
    /// A store that is gone with the process, for tests and tools.
    pub fn in_memory() -> Self {
        Self(journal::Journal::in_memory())
    }

    /// Opens the store in a directory, or makes one, and reads the state.
    pub(crate) fn open(directory: &Path) -> Result<(Self, State), JournalError> {
        let (journal, state) = journal::Journal::open(directory)?;
        Ok((Self(journal), state))
    }

    /// Renames a state file that cannot be read, so that a new one can be begun. Returns where it is now.
    pub fn set_aside(directory: &Path) -> Result<PathBuf, JournalError> {
        journal::Journal::set_aside(directory, State::FORMAT)
    }

    /// Makes changes durable, all of them or none. `state` is what they lead to.
    pub(crate) fn commit(&mut self, changes: &[Change], state: &State) -> Result<(), JournalError> {
        self.0.commit(state, |frame| {
            for change in last_of_each(changes) {
                entry::change(frame, change);
            }
            entry::counters(frame, state);
        })
    }
}

/// The last change to each object, in the order they were made; what came before it in the same batch nobody will ever see.
fn last_of_each(changes: &[Change]) -> Vec<&Change> {
    let mut seen = BTreeSet::new();
    let mut last: Vec<&Change> = changes.iter().rev().filter(|change| seen.insert(change.object())).collect();
    last.reverse();
    last
}
