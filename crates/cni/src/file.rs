//! Files that plugins keep: read up to a limit, and replaced so that whoever looks sees the old one or the new one, whole.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

/// The content of a file that has at most this many bytes; nothing if there is no such file.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    match content.len() as u64 > limit {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))),
        false => Ok(Some(content)),
    }
}

/// Replaces a file, or makes it, with mode 0600. When this returns, it is on the disk.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_file_name(new_name(path));
    let replaced = write(&new, content).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        // The failure to tell is the first one.
        let _ = fs::remove_file(&new);
    }
    replaced.and_then(|()| sync_directory(path))
}

/// Makes a directory and those above it, for nobody but the owner.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes a file; that it is gone already is no failure.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A name that begins with a dot, so that it is never taken for a container's or an address's.
fn new_name(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    name
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// A file that was renamed is there after a loss of power only once its directory is on the disk.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// Directories of Windows cannot be synced, and need not be.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("a");
        for content in ["one", "two"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(read(&path, 3).unwrap().unwrap(), content.as_bytes());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(read(&path, 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read(&path, 2).unwrap(), None);
        assert!(replace(&directory.path().join("none/a"), b"x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_the_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("b/c/a");
        make_private_directory(path.parent().unwrap()).unwrap();
        replace(&path, b"x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
