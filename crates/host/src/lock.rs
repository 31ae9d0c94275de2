//! One process at a time: a lock on a directory that says who holds it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// A lock that is held until it is dropped, or the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

/// Why a lock cannot be had.
#[derive(Debug)]
pub enum LockError {
    /// Somebody has it.
    Held {
        /// The lock's file.
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// The operating system refused.
    Io(PathBuf, std::io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { path, holder } => write!(f, "{holder} holds {}", path.display()),
            Self::Io(path, error) => write!(f, "could not lock {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for LockError {}

impl Lock {
    /// Takes the lock and notes who has it.
    pub fn take(path: &Path, holder: &str) -> Result<Self, LockError> {
        let io = |error: std::io::Error| LockError::Io(path.to_owned(), error);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(io)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(file, errno)| held(file, errno, path))?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes())).map_err(io)?;
        Ok(Self { _file: file })
    }
}

fn held(mut file: File, errno: Errno, path: &Path) -> LockError {
    if errno != Errno::EWOULDBLOCK {
        return LockError::Io(path.to_owned(), errno.into());
    }
    let mut holder = String::new();
    _ = file.read_to_string(&mut holder);
    let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
    LockError::Held { path: path.to_owned(), holder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_hears_of_the_first() {
        let path = std::env::temp_dir().join(format!("transom-lock-test-{}", std::process::id()));
        let first = Lock::take(&path, "process 7").unwrap();
        let error = Lock::take(&path, "process 8").unwrap_err();
        assert!(error.to_string().starts_with("process 7 holds"), "{error}");
        drop(first);
        drop(Lock::take(&path, "process 9").unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
