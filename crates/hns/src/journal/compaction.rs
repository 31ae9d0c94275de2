//! Compaction: a file that holds mostly history is written anew, without stopping the service.
//!
//! A thread writes the state as it was to a new file while changes go on being appended to the old one and are remembered.
//! When the thread is done, the remembered changes are appended to the new file, and it takes the old one's place by a
//! rename. Dying at any instant leaves one whole file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use super::frame::{self, FrameWriter};
use super::{FORMAT, create_private};
use crate::state::State;

/// Payload of one frame of a new file.
const FRAME_BYTES: usize = 256 << 10;

/// A new file being written.
#[derive(Debug)]
pub(super) struct Compaction {
    outcome: Receiver<io::Result<(File, u64)>>,
    path: PathBuf,
    /// Frames appended to the old file since the new one was begun.
    tail: Vec<u8>,
}

/// How a compaction is doing.
pub(super) enum Progress {
    Running(Compaction),
    Done { file: File, length: u64, path: PathBuf, tail: Vec<u8> },
    Failed(io::Error),
}

impl Compaction {
    /// Begins to write a state to a new file.
    pub(super) fn begin(path: PathBuf, state: State) -> io::Result<Self> {
        let (sender, outcome) = mpsc::channel();
        let target = path.clone();
        std::thread::Builder::new().name("hns-compaction".into()).spawn(move || {
            // Nobody waits for the outcome of a service that is gone.
            _ = sender.send(write_state(&target, &state));
        })?;
        Ok(Self { outcome, path, tail: Vec::new() })
    }

    /// Remembers a frame that the new file lacks.
    pub(super) fn remember(&mut self, frame: &[u8]) {
        self.tail.extend_from_slice(frame);
    }

    /// Looks whether the new file is there.
    pub(super) fn poll(self) -> Progress {
        match self.outcome.try_recv() {
            Ok(Ok((file, length))) => Progress::Done { file, length, path: self.path, tail: self.tail },
            Ok(Err(error)) => Progress::Failed(error),
            Err(TryRecvError::Empty) => Progress::Running(self),
            Err(TryRecvError::Disconnected) => Progress::Failed(io::Error::other("the thread is gone")),
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
