//! Compaction: a file that holds mostly history is written anew, without stopping the service.
//!
//! A thread writes the content as it was to a new file while changes go on being appended to the old one and are remembered.
//! When the thread is done, the remembered changes are appended to the new file, and it takes the old one's place by a
//! rename. Dying at any instant leaves one whole file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::frame::{self, HEADER_LENGTH, Snapshot};
use crate::{Content, create_private};

/// A new file being written.
#[derive(Debug)]
pub(crate) struct Compaction {
    writer: Option<JoinHandle<io::Result<(File, u64)>>>,
    path: PathBuf,
    /// Frames appended to the old file since the new one was begun.
    tail: Vec<u8>,
}

/// A new file that is whole but for its tail.
pub(crate) struct NewFile {
    pub(crate) file: File,
    pub(crate) length: u64,
    pub(crate) path: PathBuf,
    pub(crate) tail: Vec<u8>,
}

impl Compaction {
    /// Begins to write a content to a new file.
    pub(crate) fn begin<C: Content>(path: PathBuf, content: C) -> io::Result<Self> {
        let target = path.clone();
        let writer = std::thread::Builder::new().name("compaction".into()).spawn(move || write_content(&target, &content))?;
        Ok(Self { writer: Some(writer), path, tail: Vec::new() })
    }

    /// Remembers a frame that the new file lacks.
    pub(crate) fn remember(&mut self, frame: &[u8]) {
        self.tail.extend_from_slice(frame);
    }

    /// The new file, once it is there.
    pub(crate) fn poll(&mut self) -> Option<io::Result<NewFile>> {
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

/// Writes a whole content to a file. Returns the file and its length; it is on disk.
pub(crate) fn write_content<C: Content>(path: &Path, content: &C) -> io::Result<(File, u64)> {
    let mut writer = BufWriter::new(create_private(path)?);
    writer.write_all(&frame::header(C::FORMAT))?;
    let mut snapshot = Snapshot::new(&mut writer);
    content.write(&mut snapshot)?;
    let length = HEADER_LENGTH as u64 + snapshot.finish()?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok((file, length))
}
