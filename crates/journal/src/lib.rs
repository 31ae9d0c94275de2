//! A durable store in one file: every acknowledged change is on disk before anybody hears of it.
//!
//! The whole content lives in memory; the file is the history that led to it, one frame for a batch of changes, appended with one
//! write and one fsync. A crash can only cut off the last frame, which nobody has been told of; anything else that is not
//! as it was written is damage, and a damaged file is never written to.
//!
//! What stands in a frame is the business of whoever keeps something here, by the trait [`Content`].
//! `docs/decisions/0003-a-journal-of-our-own.md` says why this is not a database.

mod compaction;
mod error;
mod frame;
mod reading;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use compaction::{Compaction, NewFile};
use error::doing;

pub use error::JournalError;
pub use frame::{FrameWriter, PayloadReader, Snapshot};

/// A file below this length is not worth writing anew.
const SMALL: u64 = 4 << 20;

type Result<T, E = JournalError> = std::result::Result<T, E>;

/// How a file is recognised.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What the file begins with.
    pub magic: &'static [u8; 12],
    /// The format this version writes. A file with a higher number is left alone.
    pub number: u32,
    /// The file's name inside the state directory.
    pub file_name: &'static str,
    /// The program that keeps it, for messages.
    pub owner: &'static str,
}

/// What a journal keeps.
pub trait Content: Clone + Send + 'static {
    /// How its file is recognised.
    const FORMAT: Format;

    /// The content of a new file.
    fn empty() -> Self;

    /// Applies what one frame says. The error completes "the frame at byte 16 has …".
    fn apply(&mut self, payload: &[u8]) -> Result<(), String>;

    /// Writes entries that lead from the empty content to this one.
    fn write(&self, snapshot: &mut Snapshot<'_>) -> io::Result<()>;
}

/// The store of one service.
#[derive(Debug)]
pub struct Journal {
    /// None for a store that is gone with the process.
    file: Option<StateFile>,
}

#[derive(Debug)]
struct StateFile {
    format: Format,
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

    /// Opens the store in a directory, or makes one, and reads the content.
    pub fn open<C: Content>(directory: &Path) -> Result<(Self, C)> {
        fs::create_dir_all(directory).map_err(doing(format!("make the state directory {}", directory.display())))?;
        let (path, unfinished) = (directory.join(C::FORMAT.file_name), new_name(directory, C::FORMAT));
        if unfinished.exists() {
            fs::remove_file(&unfinished).map_err(doing(format!("remove {}", unfinished.display())))?;
        }
        let (file, length, content) = match path.exists() {
            true => reading::read_file(&path)?,
            false => new_file(directory, &path)?,
        };
        let directory = directory.to_owned();
        // How much of the file is history is not known, so a large one is written anew with the first change.
        let file = StateFile { format: C::FORMAT, directory, file, length, full: SMALL, compaction: None, broken: None };
        Ok((Self { file: Some(file) }, content))
    }

    /// Renames a state file that cannot be read, so that a new one can be begun. Returns where it is now.
    pub fn set_aside(directory: &Path, format: Format) -> Result<PathBuf> {
        let path = directory.join(format.file_name);
        let candidates = (1..u32::MAX).map(|number| directory.join(format!("{}.unreadable-{number}", format.file_name)));
        let aside = candidates.into_iter().find(|candidate| !candidate.exists()).unwrap_or_else(|| directory.join("unreadable"));
        fs::rename(&path, &aside).map_err(doing(format!("rename {} to {}", path.display(), aside.display())))?;
        sync_directory(directory)?;
        Ok(aside)
    }

    /// Makes a batch of changes durable, all of them or none. `fill` writes them, and `content` is what they lead to.
    pub fn commit<C: Content>(&mut self, content: &C, fill: impl FnOnce(&mut FrameWriter)) -> Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut frame = FrameWriter::new();
        fill(&mut frame);
        if frame.len() > frame::LARGEST_PAYLOAD as usize {
            let cause = format!("{} bytes in one batch are more than a state file takes", frame.len());
            return Err(JournalError::Io { doing: "write the state".into(), error: io::Error::new(io::ErrorKind::FileTooLarge, cause) });
        }
        file.append(&frame.finish())?;
        file.compact(content);
        Ok(())
    }
}

impl StateFile {
    fn append(&mut self, frame: &[u8]) -> Result<()> {
        if let Some(cause) = &self.broken {
            return Err(JournalError::Io { doing: "write the state".into(), error: io::Error::other(cause.clone()) });
        }
        let owner = self.format.owner;
        if let Err(error) = self.file.write_all_at(frame, self.length) {
            // Half a frame at the end would be taken for damage once another frame follows it.
            if let Err(error) = self.file.set_len(self.length) {
                self.broken = Some(format!("the state file could not be cut back after a failed write: {error}; restart {owner}"));
            }
            return Err(JournalError::Io { doing: "write the state".into(), error });
        }
        if let Err(error) = self.file.sync_data() {
            self.broken = Some(format!("an earlier write did not reach the disk: {error}; restart {owner}"));
            return Err(JournalError::Io { doing: "write the state to disk".into(), error });
        }
        self.length += frame.len() as u64;
        if let Some(compaction) = &mut self.compaction {
            compaction.remember(frame);
        }
        Ok(())
    }

    /// Writes the file anew when it holds much more history than content. A failure costs nothing but room on the disk.
    fn compact<C: Content>(&mut self, content: &C) {
        if let Some(compaction) = &mut self.compaction {
            let Some(outcome) = compaction.poll() else { return };
            self.compaction = None;
            if let Err(error) = outcome.and_then(|new| self.switch_over(new)) {
                self.give_up(&error);
            }
        } else if self.length >= self.full {
            match Compaction::begin(new_name(&self.directory, self.format), content.clone()) {
                Ok(compaction) => self.compaction = Some(compaction),
                Err(error) => self.give_up(&error),
            }
        }
    }

    /// Completes a new file and puts it in the old one's place. After an error the old one is still the file.
    fn switch_over(&mut self, new: NewFile) -> io::Result<()> {
        new.file.write_all_at(&new.tail, new.length)?;
        new.file.sync_data()?;
        fs::rename(&new.path, self.directory.join(self.format.file_name))?;
        self.file = new.file;
        self.length = new.length + new.tail.len() as u64;
        self.full = full_at(self.length);
        if let Err(error) = File::open(&self.directory).and_then(|directory| directory.sync_all()) {
            // A crash might bring the old file back, without what is written from now on.
            let owner = self.format.owner;
            self.broken = Some(format!("the new state file's name did not reach the disk: {error}; restart {owner}"));
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

/// A new file's name, until it takes the old one's place.
fn new_name(directory: &Path, format: Format) -> PathBuf {
    directory.join(format!("{}.new", format.file_name))
}

/// Makes the file of an empty content. It appears under its name only when it is whole.
fn new_file<C: Content>(directory: &Path, path: &Path) -> Result<(File, u64, C)> {
    let content = C::empty();
    let unfinished = new_name(directory, C::FORMAT);
    let (file, length) = compaction::write_content(&unfinished, &content).map_err(doing(format!("write {}", unfinished.display())))?;
    fs::rename(&unfinished, path).map_err(doing(format!("rename {} to {}", unfinished.display(), path.display())))?;
    sync_directory(directory)?;
    Ok((file, length, content))
}

/// Makes a file that only its owner can read: what is kept may name what others need not know.
fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(doing(format!("sync {}", directory.display())))
}
