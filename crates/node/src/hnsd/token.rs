//! The token that callers of the loopback port need.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::Error;

/// Reads the token, or makes one that only its owner can read.
pub(super) fn load_or_make(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) => check(path, text.trim()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path),
        Err(error) => Err(failed("read", path, error)),
    }
}

fn failed(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::Io(format!("{doing} the token file {}", path.display()), error)
}

fn check(path: &Path, token: &str) -> Result<String, Error> {
    let mode = fs::metadata(path).map_err(|error| failed("read", path, error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let error = std::io::Error::other("others can read it; chmod 600 it, or delete it to have a new one made");
        return Err(failed("use", path, error));
    }
    if token.len() < 16 {
        return Err(failed("use", path, std::io::Error::other("it has fewer than 16 characters; delete it to have a new one made")));
    }
    Ok(token.to_owned())
}

fn make(path: &Path) -> Result<String, Error> {
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| writeln!(file, "{token}")).map_err(|error| failed("make", path, error))?;
    Ok(token)
}

/// Whether two tokens are the same, in a time that does not tell where they differ.
pub(super) fn is_same(given: &str, token: &str) -> bool {
    let difference = given.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && difference == 0
}
