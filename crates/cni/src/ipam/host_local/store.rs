//! The files of a network, under their lock.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::config::Attachment;
use crate::error::{Error, Result};

/// What stands between container and interface, on every system.
const LINE_BREAK: &str = "\r\n";

/// More than a container id and a name ever are.
const CONTENT_LIMIT: u64 = 4096;

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    container_id: String,
    /// Files of old versions do not tell.
    ifname: Option<String>,
}

impl Owner {
    /// Reads a file's content; a blank one is nobody's. A loss of power may leave zeros where there was text.
    fn read(content: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content);
        let text = text.trim_matches(|character: char| character.is_whitespace() || character == '\0');
        match text.split_once(LINE_BREAK) {
            _ if text.is_empty() => None,
            Some((id, ifname)) => Some(Self { container_id: id.to_owned(), ifname: Some(ifname.to_owned()) }),
            None => Some(Self { container_id: text.to_owned(), ifname: None }),
        }
    }

    /// Whether an attachment is meant: by container and interface, or in the old form, by the container alone.
    pub(super) fn is(&self, attachment: &Attachment, old: bool) -> bool {
        let interface = if old { None } else { Some(attachment.ifname.as_str()) };
        self.container_id == attachment.container_id && self.ifname.as_deref() == interface
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ifname {
            Some(ifname) => write!(f, "container {} on interface {ifname}", self.container_id),
            None => write!(f, "container {}", self.container_id),
        }
    }
}

/// The directory of a network. The lock is held for as long as the value lives, and ends with the process at the latest.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens the directory, and makes it if need be.
    pub(super) fn create(directory: &Path) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
        builder.create(directory).map_err(|error| failure("making the directory", directory, &error))?;
        Self::lock(directory)
    }

    /// Opens the directory if it is there.
    pub(super) fn open(directory: &Path) -> Result<Option<Self>> {
        match fs::metadata(directory) {
            Ok(_) => Self::lock(directory).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure("looking at", directory, &error)),
        }
    }

    fn lock(directory: &Path) -> Result<Self> {
        let path = directory.join("lock");
        let lock = file_options(0o750).read(true).write(true).create(true).truncate(false).open(&path);
        let locked = lock.and_then(|lock| lock.lock().map(|()| lock));
        let lock = locked.map_err(|error| failure("locking", &path, &error))?;
        Ok(Self { directory: directory.to_owned(), _lock: lock })
    }

    /// Every address that has a file, with its owner; without one it is free.
    pub(super) fn addresses(&self) -> Result<BTreeMap<IpAddr, Option<Owner>>> {
        let listing = |error: io::Error| failure("listing", &self.directory, &error);
        let mut addresses = BTreeMap::new();
        for entry in fs::read_dir(&self.directory).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let name = entry.file_name();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let Some(address) = name.to_str().and_then(parse_name).filter(|_| !is_directory) else { continue };
            let path = entry.path();
            let content = read_file(&path).map_err(|error| failure("reading", &path, &error))?;
            addresses.insert(address, Owner::read(&content));
        }
        Ok(addresses)
    }

    /// Takes an address, unless somebody has it.
    pub(super) fn reserve(&self, address: IpAddr, attachment: &Attachment) -> Result<bool> {
        let path = self.path(address);
        let content = format!("{}{LINE_BREAK}{}", attachment.container_id, attachment.ifname);
        let file = match file_options(0o600).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_nobodys(&path) => {
                file_options(0o600).write(true).truncate(true).open(&path)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            other => other,
        };
        let written = file.and_then(|mut file| file.write_all(content.as_bytes()));
        written.map(|()| true).map_err(|error| {
            // Half a file would be somebody's for ever. That this fails too changes nothing about what to tell.
            let _ = fs::remove_file(&path);
            failure("writing", &path, &error)
        })
    }

    /// Gives an address back.
    pub(super) fn remove(&self, address: IpAddr) -> Result<()> {
        let path = self.path(address);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failure("removing", &path, &error)),
            _ => Ok(()),
        }
    }

    /// Gives back the addresses of whose owner, or of whose lack of one, this is true: as many as possible, and says how many.
    pub(super) fn release(&self, is_meant: impl Fn(Option<&Owner>) -> bool) -> Result<usize> {
        let addresses = self.addresses()?;
        let meant = addresses.iter().filter(|(_, owner)| is_meant(owner.as_ref())).map(|(address, _)| *address);
        let (removed, failed): (Vec<_>, Vec<_>) = meant.map(|address| self.remove(address)).partition(Result::is_ok);
        let failures: Vec<String> = failed.into_iter().filter_map(Result::err).map(|error| error.msg).collect();
        match failures.is_empty() {
            true => Ok(removed.len()),
            false => Err(Error::io_failure(failures.join("; ")).details(REMEDY)),
        }
    }

    /// The address that a set gave out last. It is only a hint, so that whatever is wrong with it means there is none.
    pub(super) fn last_reserved(&self, set: usize) -> Option<IpAddr> {
        let content = read_file(&self.last_reserved_path(set)).ok()?;
        String::from_utf8_lossy(&content).trim().parse().ok().map(|address: IpAddr| address.to_canonical())
    }

    /// Remembers the address that a set gave out last.
    pub(super) fn set_last_reserved(&self, set: usize, address: IpAddr) -> Result<()> {
        write_file(&self.last_reserved_path(set), address.to_string().as_bytes())
    }

    /// Whether files can be written here now.
    pub(super) fn probe(&self) -> Result<()> {
        let path = self.directory.join(".probe");
        let written = write_file(&path, b"STATUS writes this to find out whether ADD could write.\n");
        match fs::remove_file(&path) {
            Err(error) if written.is_ok() => Err(failure("removing", &path, &error)),
            _ => written,
        }
    }

    fn last_reserved_path(&self, set: usize) -> PathBuf {
        self.directory.join(format!("last_reserved_ip.{set}"))
    }

    fn path(&self, address: IpAddr) -> PathBuf {
        self.directory.join(print_name(address))
    }
}

/// Whether a file has lost its writer. What cannot be read is somebody's.
fn is_nobodys(path: &Path) -> bool {
    read_file(path).is_ok_and(|content| Owner::read(&content).is_none())
}

/// The name of an address's file. No file of Windows has a colon in its name.
fn print_name(address: IpAddr) -> String {
    let text = address.to_string();
    if cfg!(windows) { text.replace(':', "_") } else { text }
}

fn parse_name(name: &str) -> Option<IpAddr> {
    let text = if cfg!(windows) { name.replace('_', ":") } else { name.to_owned() };
    text.parse().ok()
}

/// The content of a file, which is short unless somebody else put it there.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(CONTENT_LIMIT).read_to_end(&mut content)?;
    Ok(content)
}

fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let file = file_options(0o600).write(true).create(true).truncate(true).open(path);
    file.and_then(|mut file| file.write_all(content)).map_err(|error| failure("writing", path, &error))
}

/// Options that make a file with a mode, where files have one.
#[cfg(unix)]
fn file_options(mode: u32) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.mode(mode);
    options
}

#[cfg(not(unix))]
fn file_options(_mode: u32) -> OpenOptions {
    OpenOptions::new()
}

const REMEDY: &str = "make room there and let the plugin write, or set ipam.dataDir to another directory";

fn failure(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::io_failure(format!("{what} {} failed: {error}", path.display())).details(REMEDY)
}
