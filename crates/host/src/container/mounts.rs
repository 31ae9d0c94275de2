//! The file system of a container: the machine's own, read-only, with other things laid over it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::tree::{Tree, explained, set_read_only};
use super::{Mount, Spec, root};

const NONE: Option<&str> = None;

/// Where a directory of the machine is seen below the copy that hides it.
const BELOW: &str = ".machine";

/// Changes the mount table of the calling process, which must be its own, to what the container sees.
///
/// What could not be done, and need not be, is told.
pub(super) fn prepare(spec: &Spec) -> io::Result<Vec<String>> {
    let mut notes = Vec::new();
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).map_err(|errno| failed("keep mounts private below", "/", errno))?;
    // Sources are taken first: a mount may hide where the next one comes from, and what is taken stays writable.
    let sources = spec.mounts.iter().map(|mount| mount.source.as_deref().map(Tree::take).transpose()).collect::<io::Result<Vec<_>>>()?;
    let scratch = spec.scratch.as_deref().map(Tree::take).transpose()?;
    hide(&spec.hidden)?;
    if !spec.writable
        && let Err(error) = set_read_only(Path::new("/"))
    {
        notes.push(format!("the file system is not read-only: {error}"));
    }
    let mut layers = Layers::default();
    if spec.mounts.iter().any(|mount| is_new_in_root(&mount.target)) {
        layers.list = root::rebuild()?;
    }
    notes.extend(mount_own()?);
    if let (Some(path), Some(tree)) = (&spec.scratch, &scratch) {
        tree.attach(path)?;
    }
    for (mount, source) in spec.mounts.iter().zip(&sources) {
        layers.lay(mount, source.as_ref())?;
    }
    std::env::set_current_dir("/")?;
    Ok(notes)
}

/// Takes mounts away: those that were named, and the network namespaces of others wherever they are.
///
/// A machine with a thousand pods has as many of them, and every container would have a copy of each.
fn hide(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        detach(path)?;
    }
    for path in mount_points(&fs::read_to_string("/proc/self/mountinfo")?, "nsfs") {
        detach(&path)?;
    }
    Ok(())
}

fn detach(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // It is no mount point, not here, or one that a user must not take away because it hides something.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(errno) => Err(failed("unmount", path, errno)),
    }
}

/// Where file systems of a type are mounted. A line is `36 35 98:0 /root /mount/point options - type source options`.
fn mount_points(table: &str, file_system: &str) -> Vec<PathBuf> {
    let of_type = |line: &&str| line.split_once(" - ").is_some_and(|(_, rest)| rest.split(' ').next() == Some(file_system));
    table.lines().filter(of_type).filter_map(|line| line.split(' ').nth(4)).map(unescape).collect()
}

/// Blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                plain.push(code);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&plain))
}

/// What every container has for itself: its processes, and memory that they share.
fn mount_own() -> io::Result<Option<String>> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if Path::new("/dev/shm").is_dir() {
        let shared = mount(Some("shm"), "/dev/shm", Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=1777,size=64m"));
        shared.map_err(|errno| failed("mount memory on", "/dev/shm", errno))?;
    }
    match mount(Some("proc"), "/proc", Some("proc"), flags, NONE) {
        Ok(()) => Ok(None),
        // A kernel does not show a user what somebody has covered in the /proc that is there.
        Err(errno @ (Errno::EPERM | Errno::EBUSY)) => Ok(Some(format!("/proc is not the container's own: {}", errno.desc()))),
        Err(errno) => Err(failed("mount", "/proc", errno)),
    }
}

/// Whether a place would have to be made in the root directory itself.
fn is_new_in_root(target: &Path) -> bool {
    let top: PathBuf = target.components().take(2).collect();
    !top.exists()
}

/// What was laid over the machine, in order: where, and whether it is memory of the container's own.
#[derive(Default)]
struct Layers {
    list: Vec<(PathBuf, bool)>,
}

impl Layers {
    fn lay(&mut self, mount: &Mount, source: Option<&Tree>) -> io::Result<()> {
        if !mount.target.exists() {
            self.make_target(&mount.target, source.is_none_or(|source| source.is_directory))?;
        }
        let target = mount.target.canonicalize()?;
        match source {
            Some(source) => source.attach(&target)?,
            None => mount_memory(&target)?,
        }
        if mount.read_only {
            set_read_only(&target).map_err(|error| explained("make read-only", &target, &error))?;
        }
        self.list.push((target, source.is_none()));
        Ok(())
    }

    /// Makes a place for a mount without changing the machine: its directory is covered with a copy in memory, which has links
    /// to everything in the original and the new place besides.
    fn make_target(&mut self, target: &Path, is_directory: bool) -> io::Result<()> {
        let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("nothing can be mounted on {}", target.display())));
        };
        if !directory.exists() {
            self.make_target(directory, true)?;
        }
        let directory = directory.canonicalize()?;
        if !self.is_own(&directory) {
            cover(&directory)?;
            self.list.push((directory.clone(), true));
            self.list.push((directory.join(BELOW), false));
        }
        let place = directory.join(name);
        // What is there is a link to nowhere.
        let _ = fs::remove_file(&place);
        match is_directory {
            true => fs::create_dir(&place),
            false => File::create(&place).map(drop),
        }
    }

    /// Whether new names in a directory are the container's own: the last layer around it is.
    fn is_own(&self, directory: &Path) -> bool {
        let around = self.list.iter().filter(|(point, _)| directory.starts_with(point));
        around.max_by_key(|(point, _)| point.as_os_str().len()).is_some_and(|(_, is_own)| *is_own)
    }
}

fn mount_memory(target: &Path) -> io::Result<()> {
    mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=1777"))
        .map_err(|errno| failed("mount memory on", target, errno))
}

/// Covers a directory with links to all that is in it, in memory.
fn cover(directory: &Path) -> io::Result<()> {
    let original = Tree::take(directory)?;
    let links = fs::read_dir(directory)?.map(|entry| link_to(&entry?)).collect::<io::Result<Vec<_>>>()?;
    mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=755"))
        .map_err(|errno| failed("mount memory on", directory, errno))?;
    let below = directory.join(BELOW);
    fs::create_dir(&below)?;
    original.attach(&below)?;
    links.into_iter().try_for_each(|(name, leads_to)| symlink(leads_to, directory.join(name)))
}

/// The name of an entry, and where a link in its place leads to. A link of the machine is copied as it is: it may lead to a
/// neighbour of the directory.
fn link_to(entry: &fs::DirEntry) -> io::Result<(OsString, PathBuf)> {
    let leads_to = match entry.file_type()?.is_symlink() {
        true => fs::read_link(entry.path())?,
        false => Path::new(BELOW).join(entry.file_name()),
    };
    Ok((entry.file_name(), leads_to))
}

fn failed(operation: &str, path: impl AsRef<Path>, errno: Errno) -> io::Error {
    explained(operation, path.as_ref(), &errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_by_type() {
        let table = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     26 25 0:4 net:[4026532] /run/netns/a\\040b rw shared:1 - nsfs nsfs rw\n\
                     27 25 0:5 / /run/nsfs rw - tmpfs tmpfs rw\n";
        assert_eq!(mount_points(table, "nsfs"), [PathBuf::from("/run/netns/a b")]);
        assert_eq!(mount_points(table, "tmpfs"), [PathBuf::from("/run/nsfs")]);
    }

    #[test]
    fn only_three_digits_are_an_escape() {
        assert_eq!(unescape("a\\134b\\04"), PathBuf::from("a\\b\\04"));
    }
}
