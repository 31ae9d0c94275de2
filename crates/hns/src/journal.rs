//! The durable store: every acknowledged change is on disk before anybody hears of it.
//!
//! The whole state lives in memory; the file is the history that led to it, one frame for a batch of changes, appended with one
//! write and one fsync. A crash can only cut off the last frame, which nobody has been told of; anything else that is not
//! as it was written is damage, and a damaged file is never written to.
//!
//! `docs/decisions/0003-a-journal-of-our-own.md` says why this is not a database.

mod compaction;
mod frame;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hcn::Guid;
use hcn::api::Kind;

use crate::record::AnyRecord;
use crate::state::State;
use compaction::{Compaction, NewFile};
use frame::{FrameWriter, HEAD_LENGTH, HEADER_LENGTH, Head};

/// The format this version writes. A file with a higher number is left alone.
const FORMAT: u32 = 1;

/// The file's name inside the state directory.
pub const FILE_NAME: &str = "hns.journal";

/// A new file, until it takes the old one's place.
const NEW_FILE_NAME: &str = "hns.journal.new";

/// A file below this length is not worth writing anew.
const SMALL: u64 = 4 << 20;

/// Why the store cannot be opened or written.
#[derive(Debug)]
pub enum JournalError {
    /// The file is damaged or no state file at all.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The file was written by a newer version.
    Newer {
        /// Which file.
        path: PathBuf,
        /// The format it has.
        format: u32,
    },
    /// The operating system refused.
    Io {
        /// What was being done.
        doing: String,
        /// What it said.
        error: io::Error,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, cause } => write!(
                f,
                "the state file {} cannot be read: {cause}; it was left as it is. Restore it from a backup, or start with \
                 --set-aside-unreadable-state to rename it and begin with an empty state",
                path.display()
            ),
            Self::Newer { path, format } => write!(
                f,
                "the state file {} has format {format}, and this version reads up to {FORMAT}; it was left as it is. Start the \
                 version of transom that wrote it, or choose another --state-dir",
                path.display()
            ),
            Self::Io { doing, error } => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for JournalError {}

type Result<T, E = JournalError> = std::result::Result<T, E>;

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
pub struct Journal {
    /// None for a store that is gone with the process.
    file: Option<StateFile>,
}

#[derive(Debug)]
struct StateFile {
    directory: PathBuf,
    file: File,
    length: u64,
    /// The length at which the file is written anew.
    full: u64,
    compaction: Option<Compaction>,
    /// Why nothing can be written any more: what an fsync that failed has left on disk is unknown.
    broken: Option<String>,
}

impl Journal {
    /// A store that is gone with the process, for tests and tools.
    pub fn in_memory() -> Self {
        Self { file: None }
    }

    /// Opens the store in a directory, or makes one, and reads the state.
    pub(crate) fn open(directory: &Path) -> Result<(Self, State)> {
        fs::create_dir_all(directory).map_err(io(format!("make the state directory {}", directory.display())))?;
        let (path, unfinished) = (directory.join(FILE_NAME), directory.join(NEW_FILE_NAME));
        if unfinished.exists() {
            fs::remove_file(&unfinished).map_err(io(format!("remove {}", unfinished.display())))?;
        }
        let (file, length, state) = match path.exists() {
            true => read_file(&path)?,
            false => new_file(directory, &path)?,
        };
        let directory = directory.to_owned();
        // How much of the file is history is not known, so a large one is written anew with the first change.
        let file = StateFile { directory, file, length, full: SMALL, compaction: None, broken: None };
        Ok((Self { file: Some(file) }, state))
    }

    /// Renames a state file that cannot be read, so that a new one can be begun. Returns where it is now.
    pub fn set_aside(directory: &Path) -> Result<PathBuf> {
        let path = directory.join(FILE_NAME);
        let candidates = (1..u32::MAX).map(|number| directory.join(format!("{FILE_NAME}.unreadable-{number}")));
        let aside = candidates.into_iter().find(|candidate| !candidate.exists()).unwrap_or_else(|| directory.join("unreadable"));
        fs::rename(&path, &aside).map_err(io(format!("rename {} to {}", path.display(), aside.display())))?;
        sync_directory(directory)?;
        Ok(aside)
    }

    /// Makes changes durable, all of them or none. `state` is what they lead to.
    pub(crate) fn commit(&mut self, changes: &[Change], state: &State) -> Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut frame = FrameWriter::new();
        for change in last_of_each(changes) {
            frame.change(change);
        }
        frame.counters(state);
        if frame.len() > frame::LARGEST_PAYLOAD as usize {
            let cause = format!("{} bytes in one batch are more than a state file takes", frame.len());
            return Err(JournalError::Io { doing: "write the state".into(), error: io::Error::new(io::ErrorKind::FileTooLarge, cause) });
        }
        file.append(&frame.finish())?;
        file.compact(state);
        Ok(())
    }
}

/// The last change to each object, in the order they were made; what came before it in the same batch nobody will ever see.
fn last_of_each(changes: &[Change]) -> Vec<&Change> {
    let mut seen = BTreeSet::new();
    let mut last: Vec<&Change> = changes.iter().rev().filter(|change| seen.insert(change.object())).collect();
    last.reverse();
    last
}

impl StateFile {
    fn append(&mut self, frame: &[u8]) -> Result<()> {
        if let Some(cause) = &self.broken {
            return Err(JournalError::Io { doing: "write the state".into(), error: io::Error::other(cause.clone()) });
        }
        if let Err(error) = self.file.write_all_at(frame, self.length) {
            // Half a frame at the end would be taken for damage once another frame follows it.
            if let Err(error) = self.file.set_len(self.length) {
                self.broken = Some(format!("the state file could not be cut back after a failed write: {error}; restart hnsd"));
            }
            return Err(JournalError::Io { doing: "write the state".into(), error });
        }
        if let Err(error) = self.file.sync_data() {
            self.broken = Some(format!("an earlier write did not reach the disk: {error}; restart hnsd"));
            return Err(JournalError::Io { doing: "write the state to disk".into(), error });
        }
        self.length += frame.len() as u64;
        if let Some(compaction) = &mut self.compaction {
            compaction.remember(frame);
        }
        Ok(())
    }

    /// Writes the file anew when it holds much more history than state. A failure costs nothing but room on the disk.
    fn compact(&mut self, state: &State) {
        if let Some(compaction) = &mut self.compaction {
            let Some(outcome) = compaction.poll() else { return };
            self.compaction = None;
            if let Err(error) = outcome.and_then(|new| self.switch_over(new)) {
                self.give_up(&error);
            }
        } else if self.length >= self.full {
            match Compaction::begin(self.directory.join(NEW_FILE_NAME), state.clone()) {
                Ok(compaction) => self.compaction = Some(compaction),
                Err(error) => self.give_up(&error),
            }
        }
    }

    /// Completes a new file and puts it in the old one's place. After an error the old one is still the file.
    fn switch_over(&mut self, new: NewFile) -> io::Result<()> {
        new.file.write_all_at(&new.tail, new.length)?;
        new.file.sync_data()?;
        fs::rename(&new.path, self.directory.join(FILE_NAME))?;
        self.file = new.file;
        self.length = new.length + new.tail.len() as u64;
        self.full = full_at(self.length);
        if let Err(error) = File::open(&self.directory).and_then(|directory| directory.sync_all()) {
            // A crash might bring the old file back, without what is written from now on.
            self.broken = Some(format!("the new state file's name did not reach the disk: {error}; restart hnsd"));
        }
        Ok(())
    }

    fn give_up(&mut self, error: &io::Error) {
        tracing::warn!(%error, "the state file could not be written anew; it goes on growing");
        self.full = self.length.saturating_mul(2);
    }
}

fn full_at(length: u64) -> u64 {
    length.saturating_mul(2).max(SMALL)
}

/// Makes the file of an empty state. It appears under its name only when it is whole.
fn new_file(directory: &Path, path: &Path) -> Result<(File, u64, State)> {
    let state = State::new();
    let unfinished = directory.join(NEW_FILE_NAME);
    let (file, length) = compaction::write_state(&unfinished, &state).map_err(io(format!("write {}", unfinished.display())))?;
    fs::rename(&unfinished, path).map_err(io(format!("rename {} to {}", unfinished.display(), path.display())))?;
    sync_directory(directory)?;
    Ok((file, length, state))
}

/// Reads the state from a file. Only a frame that a crash has cut off at the end is cut away.
fn read_file(path: &Path) -> Result<(File, u64, State)> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io(format!("open {}", path.display())))?;
    let total = file.metadata().map_err(io(format!("open {}", path.display())))?.len();
    let mut state = State::new();
    let sound = read_frames(&file, total, path, &mut state)?;
    if sound < total {
        tracing::info!(bytes = total - sound, "the last change was cut off by a crash and never acknowledged; it is dropped");
        file.set_len(sound).and_then(|()| file.sync_all()).map_err(io(format!("cut {}", path.display())))?;
    }
    Ok((file, sound, state))
}

/// Applies all whole frames and returns where they end.
fn read_frames(file: &File, total: u64, path: &Path, state: &mut State) -> Result<u64> {
    let unreadable = |cause: String| JournalError::Unreadable { path: path.to_owned(), cause };
    let read_failed = |error: io::Error| JournalError::Io { doing: format!("read {}", path.display()), error };
    let mut reader = BufReader::with_capacity(1 << 18, file);
    check_header(&mut reader, total, path)?;
    let mut at = HEADER_LENGTH as u64;
    let mut payload = Vec::new();
    while at < total {
        if total - at < HEAD_LENGTH as u64 {
            return Ok(at);
        }
        let mut head = [0; HEAD_LENGTH];
        reader.read_exact(&mut head).map_err(read_failed)?;
        let Some(head) = Head::read(&head) else {
            if head == [0; HEAD_LENGTH] && is_blank(&mut reader).map_err(read_failed)? {
                return Ok(at);
            }
            return Err(unreadable(format!("the frame at byte {at} is damaged")));
        };
        let end = at + HEAD_LENGTH as u64 + u64::from(head.length);
        if end > total {
            return Ok(at);
        }
        payload.resize(head.length as usize, 0);
        reader.read_exact(&mut payload).map_err(read_failed)?;
        if crc32fast::hash(&payload) != head.sum {
            return Err(unreadable(format!("the frame at byte {at} is damaged")));
        }
        frame::apply(&payload, state).map_err(|cause| unreadable(format!("the frame at byte {at} has {cause}")))?;
        at = end;
    }
    Ok(at)
}

/// Whether nothing but zeros follows: room that the file system gave to a write which a loss of power then cut off.
fn is_blank(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let length = bytes.len();
        reader.consume(length);
    }
}

fn check_header(reader: &mut impl Read, total: u64, path: &Path) -> Result<()> {
    let unreadable = |cause: &str| JournalError::Unreadable { path: path.to_owned(), cause: cause.into() };
    if total < HEADER_LENGTH as u64 {
        return Err(unreadable("it is too short to be a state file"));
    }
    let mut header = [0; HEADER_LENGTH];
    reader.read_exact(&mut header).map_err(io(format!("read {}", path.display())))?;
    let [.., a, b, c, d] = header;
    match u32::from_le_bytes([a, b, c, d]) {
        _ if !header.starts_with(frame::MAGIC) => Err(unreadable("it is no state file of hnsd")),
        FORMAT => Ok(()),
        0 => Err(unreadable("it has no format number")),
        format => Err(JournalError::Newer { path: path.to_owned(), format }),
    }
}

/// Makes a file that only its owner can read: documents may name what others need not know.
fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(io(format!("sync {}", directory.display())))
}

fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> JournalError {
    let doing = doing.into();
    move |error| JournalError::Io { doing, error }
}
