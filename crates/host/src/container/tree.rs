//! Mounts as values: taken at one place, put at another.

// Some calls have no safe wrapper; each says why it is sound.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// Of <linux/mount.h>.
const OPEN_TREE_CLONE: u32 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;

/// A copy of a mount and of all below it, which is nowhere yet.
pub(super) struct Tree {
    mount: OwnedFd,
    /// Whether a directory is at its top.
    pub(super) is_directory: bool,
}

impl Tree {
    /// Takes a copy of what is seen at a path.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let is_directory = fs::metadata(path).map_err(|error| explained("find", path, &error))?.is_dir();
        let name = CString::new(path.as_os_str().as_bytes())?;
        let flags = OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE.cast_unsigned();
        // SAFETY: the name ends with a zero, and the kernel only reads it.
        let number = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, name.as_ptr(), flags) };
        match i32::try_from(number) {
            // SAFETY: the kernel made the descriptor just now, and nobody else knows of it.
            Ok(number) if number >= 0 => Ok(Self { mount: unsafe { OwnedFd::from_raw_fd(number) }, is_directory }),
            _ => Err(explained("take", path, &io::Error::last_os_error())),
        }
    }

    /// Puts it at a place.
    pub(super) fn attach(&self, target: &Path) -> io::Result<()> {
        let name = CString::new(target.as_os_str().as_bytes())?;
        let (from, flags) = (self.mount.as_raw_fd(), MOVE_MOUNT_F_EMPTY_PATH);
        // SAFETY: both names end with a zero, the first is empty, and the kernel only reads them.
        match unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, name.as_ptr(), flags) } {
            0 => Ok(()),
            _ => Err(explained("mount on", target, &io::Error::last_os_error())),
        }
    }
}

/// Makes a mount and all below it read-only.
pub(super) fn set_read_only(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let change = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let (flags, size) = (libc::AT_RECURSIVE, size_of::<libc::mount_attr>());
    // SAFETY: the name ends with a zero, the structure is as long as is said, and the kernel only reads both.
    match unsafe { libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, name.as_ptr(), flags, &raw const change, size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An error with what was tried on which path.
pub(super) fn explained(operation: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("could not {operation} {}: {error}", path.display()))
}
