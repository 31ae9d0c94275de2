//! Files that only their owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Reads a file, or makes it. One that others can read is no secret any more and is refused.
pub(super) fn load_or_make(path: &Path, make: impl FnOnce() -> io::Result<String>) -> io::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => check(path, text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = make()?;
            write(path, &text)?;
            Ok(text)
        }
        Err(error) => Err(about(path, &error)),
    }
}

fn check(path: &Path, text: String) -> io::Result<String> {
    let mode = fs::metadata(path)?.permissions().mode();
    match mode & 0o077 {
        0 => Ok(text),
        _ => Err(io::Error::other(format!("others can read {}; chmod 600 it, or delete it to have a new one made", path.display()))),
    }
}

/// Writes a file whole: it appears under its name only when it is complete.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        // A file that was there before keeps its mode when it is opened.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    })();
    written.map_err(|error| about(path, &error))
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
