//! What the server keeps on disk: a journal whose content is the state.
//!
//! ```text
//! payload = entry*
//! entry   = 1 revision:u64 storage:u8 namespace name json   an object as it is from now on
//!         | 2 revision:u64 storage:u8 namespace name        an object that is gone
//!         | 3 revision:u64                                  nothing up to this revision is history
//! ```
//!
//! `namespace`, `name` and `json` are texts with their length before them. A file that was written anew begins with entry 3; the
//! entries of changes made since are the history that followers can resume in after a restart.

use std::io;
use std::sync::Arc;

use journal::{Content, Format, FrameWriter, PayloadReader, Snapshot};
use serde_json::Value;

use super::history::{Event, EventKind};
use super::state::{Key, State, Stored};
use crate::server::resource::{self, Resource};

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const FLOOR: u8 = 3;

impl Content for State {
    const FORMAT: Format = Format { magic: b"transom-api\0", number: 1, file_name: "api.journal", owner: "transom api" };

    fn empty() -> Self {
        Self::default()
    }

    fn apply(&mut self, payload: &[u8]) -> Result<(), String> {
        let mut reader = PayloadReader::new(payload);
        while !reader.is_empty() {
            match reader.byte()? {
                PUT => read_put(self, &mut reader)?,
                REMOVE => read_remove(self, &mut reader)?,
                FLOOR => self.set_floor(reader.number()?),
                other => return Err(format!("an entry of the unknown kind {other}")),
            }
        }
        Ok(())
    }

    fn write(&self, snapshot: &mut Snapshot<'_>) -> io::Result<()> {
        snapshot.entry(|frame| write_floor(frame, self.revision()))?;
        self.all().try_for_each(|stored| snapshot.entry(|frame| write_put(frame, stored)))
    }
}

/// Writes what an event changed.
pub(super) fn write_event(frame: &mut FrameWriter, event: &Event) {
    match event.is_removal() {
        true => {
            frame.byte(REMOVE);
            frame.number(event.revision);
            write_key(frame, &event.current.key);
        }
        false => write_put(frame, &event.current),
    }
}

/// Writes that nothing up to a revision is history.
pub(super) fn write_floor(frame: &mut FrameWriter, revision: u64) {
    frame.byte(FLOOR);
    frame.number(revision);
}

fn write_put(frame: &mut FrameWriter, stored: &Stored) {
    frame.byte(PUT);
    frame.number(stored.revision);
    write_key(frame, &stored.key);
    frame.text(&stored.bytes);
}

fn write_key(frame: &mut FrameWriter, key: &Key) {
    frame.byte(key.storage);
    frame.text(key.namespace.as_bytes());
    frame.text(key.name.as_bytes());
}

fn read_put(state: &mut State, reader: &mut PayloadReader<'_>) -> Result<(), String> {
    let revision = reader.number()?;
    let (resource, key) = read_key(reader)?;
    let document: Value = serde_json::from_slice(reader.text()?).map_err(|error| format!("an object that is no JSON: {error}"))?;
    let stored = Arc::new(Stored::new(resource, key, &document, revision));
    if revision <= state.floor() {
        state.put(stored);
        return Ok(());
    }
    let previous = state.get(&stored.key).cloned();
    let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
    state.apply(Arc::new(Event::new(kind, previous, stored)));
    Ok(())
}

fn read_remove(state: &mut State, reader: &mut PayloadReader<'_>) -> Result<(), String> {
    let revision = reader.number()?;
    let (resource, key) = read_key(reader)?;
    let previous = state.get(&key).cloned().ok_or_else(|| format!("the end of {}, which is not there", key.name))?;
    let last = Arc::new(previous.at_revision(resource, revision));
    state.apply(Arc::new(Event::new(EventKind::Deleted, Some(previous), last)));
    Ok(())
}

fn read_key(reader: &mut PayloadReader<'_>) -> Result<(&'static Resource, Key), String> {
    let storage = reader.byte()?;
    let resource = resource::stored_as(storage).ok_or_else(|| format!("an object of the unknown kind {storage}"))?;
    let namespace = String::from_utf8_lossy(reader.text()?).into_owned();
    let name = String::from_utf8_lossy(reader.text()?).into_owned();
    Ok((resource, Key { storage, namespace: namespace.into(), name: name.into() }))
}
