//! A Unix socket for oneself: made with mode 0600, never in place of somebody else's.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;

/// Why a socket cannot be made.
#[derive(Debug)]
pub enum SocketError {
    /// Something listens there.
    InUse(PathBuf),
    /// The file belongs to somebody else.
    Foreign(PathBuf, u32),
    /// The file is no socket.
    NoSocket(PathBuf),
    /// The operating system refused.
    Io(PathBuf, io::Error),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(f, "another process listens on {}; stop it, or choose another --socket", path.display()),
            Self::Foreign(path, owner) => {
                write!(f, "{} belongs to the user {owner}; remove it as that user, or choose another --socket", path.display())
            }
            Self::NoSocket(path) => write!(f, "{} exists and is no socket; choose another --socket", path.display()),
            Self::Io(path, error) => write!(f, "could not make the socket {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for SocketError {}

/// Makes a listening socket that only its owner can connect to. A stale socket of one's own is replaced.
///
/// The process's umask is changed for a moment, so this belongs into the start of a program.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let io = |error| SocketError::Io(path.to_owned(), error);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(io)?;
    }
    clear_stale(path)?;
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener.map_err(io)
}

fn clear_stale(path: &Path) -> Result<(), SocketError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::Io(path.to_owned(), error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NoSocket(path.to_owned()));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(SocketError::Foreign(path.to_owned(), metadata.uid()));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(SocketError::InUse(path.to_owned()));
    }
    fs::remove_file(path).map_err(|error| SocketError::Io(path.to_owned(), error))
}

/// Which file a path names at the moment; none if there is no such file.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Removes a socket, unless another has taken its place meanwhile.
pub fn remove(path: &Path, made: Option<(u64, u64)>) {
    if made.is_some() && identity(path) == made {
        // A file that is gone already needs no removing, and nobody is left to tell of anything else.
        _ = fs::remove_file(path);
    }
}

/// The user this process acts as.
pub fn own_user() -> u32 {
    geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_for_its_owner_and_never_in_anothers_place() {
        let path = std::env::temp_dir().join(format!("transom-socket-test-{}", std::process::id()));
        let listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(listen(&path), Err(SocketError::InUse(_))));
        let made = identity(&path);
        drop(listener);
        let second = listen(&path).unwrap();
        if identity(&path) != made {
            remove(&path, made);
            assert!(path.exists(), "another's socket was removed");
        }
        remove(&path, identity(&path));
        assert!(!path.exists());
        drop(second);
        drop(listen(&path).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert!(matches!(listen(&path), Err(SocketError::NoSocket(_))));
        fs::remove_file(&path).unwrap();
    }
}
