//! Compaction: a file that holds mostly history is written anew, without stopping the service.
//!
//! A thread writes the state as it was to a new file while changes go on being appended to the old one and are remembered.
//! When the thread is done, the remembered changes are appended to the new file, and it takes the old one's place by a
//! rename. Dying at any instant leaves one whole file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::frame::{self, FrameWriter};
use super::{FORMAT, create_private};
use crate::state::State;

/// Payload of one frame of a new file.
const FRAME_BYTES: usize = 256 << 10;

/// A new file being written.
#[derive(Debug)]
pub(super) struct Compaction {
    writer: Option<JoinHandle<io::Result<(File, u64)>>>,
    path: PathBuf,
    /// Frames appended to the old file since the new one was begun.
    tail: Vec<u8>,
}

/// A new file that is whole but for its tail.
pub(super) struct NewFile {
    pub file: File,
    pub length: u64,
    pub path: PathBuf,
    pub tail: Vec<u8>,
}

impl Compaction {
    /// Begins to write a state to a new file.
    pub(super) fn begin(path: PathBuf, state: State) -> io::Result<Self> {
        let target = path.clone();
        let writer = std::thread::Builder::new().name("hns-compaction".into()).spawn(move || write_state(&target, &state))?;
        Ok(Self { writer: Some(writer), path, tail: Vec::new() })
    }

    /// Remembers a frame that the new file lacks.
    pub(super) fn remember(&mut self, frame: &[u8]) {
        self.tail.extend_from_slice(frame);
    }

    /// The new file, once it is there.
    pub(super) fn poll(&mut self) -> Option<io::Result<NewFile>> {
        let writer = self.writer.take_if(|writer| writer.is_finished())?;
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the thread is gone")));
        Some(written.map(|(file, length)| NewFile {
            file,
            length,
            path: std::mem::take(&mut self.path),
            tail: std::mem::take(&mut self.tail),
        }))
    }
}

impl Drop for Compaction {
    /// Waits for the thread, so that nobody writes to the directory once the store is closed.
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            _ = writer.join();
        }
    }
}

/// Writes a whole state to a file. Returns the file and its length; it is on disk.
pub(super) fn write_state(path: &Path, state: &State) -> io::Result<(File, u64)> {
    let mut writer = BufWriter::new(create_private(path)?);
    writer.write_all(&frame::header(FORMAT))?;
    let mut length = frame::HEADER_LENGTH as u64;
    let mut emit = |frame: FrameWriter| {
        let bytes = frame.finish();
        length += bytes.len() as u64;
        writer.write_all(&bytes)
    };
    let mut frame = FrameWriter::new();
    frame.management_macs(&state.management_macs);
    frame.counters(state);
    for record in state.iter() {
        frame.put(&record);
        if frame.len() >= FRAME_BYTES {
            emit(std::mem::replace(&mut frame, FrameWriter::new()))?;
        }
    }
    emit(frame)?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok((file, length))
}
