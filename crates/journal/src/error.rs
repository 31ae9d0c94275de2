//! Why a store cannot be opened or written.

use std::fmt;
use std::io;
use std::path::PathBuf;

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
        /// The highest format that this version reads.
        known: u32,
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
            Self::Newer { path, format, known } => write!(
                f,
                "the state file {} has format {format}, and this version reads up to {known}; it was left as it is. Start the \
                 version of transom that wrote it, or choose another --state-dir",
                path.display()
            ),
            Self::Io { doing, error } => write!(f, "could not {doing}: {error}"),
        }
    }
}

impl std::error::Error for JournalError {}

/// Says what was being done when the operating system refused.
pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> JournalError {
    let doing = what.into();
    move |error| JournalError::Io { doing, error }
}
