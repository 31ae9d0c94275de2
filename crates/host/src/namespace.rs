//! Network namespaces that have a name: a file in a directory, as `ip netns` makes them.
//!
//! The file is a mount of the namespace itself, so it keeps the namespace alive when no process is in it. It works as root, and as
//! anybody inside a user namespace that has a mount namespace of its own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};

/// The namespace of the calling thread; `/proc/self` would be that of the process's first thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace that is held open: it stays while this value does, even if its file is deleted.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    path: PathBuf,
}

/// Makes a namespace and gives it a name. One that has the name already is adopted as it is.
///
/// The directory is made where it is missing, and becomes a shared mount point, so that other mount namespaces see the name too.
pub fn create(directory: &Path, name: &str) -> io::Result<Namespace> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name for a network namespace")));
    }
    fs::create_dir_all(directory).map_err(|error| explained("make the directory", directory, &error))?;
    // Two makers at once would mount the directory over itself twice, and hide what the first has made in it.
    let _turn = wait_for_turn(directory)?;
    let path = directory.join(name);
    if let Ok(existing) = open(&path) {
        return Ok(existing);
    }
    make_shared(directory).map_err(|errno| explained("make a shared mount point of", directory, &errno.into()))?;
    // A plain file here is what a reboot leaves behind; it is mounted over.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o444)
        .open(&path)
        .map_err(|error| explained("make the network namespace", &path, &error))?;
    mount_fresh(&path).inspect_err(|_| _ = fs::remove_file(&path))?;
    open(&path)
}

/// Opens the namespace that has this file.
pub fn open(path: &Path) -> io::Result<Namespace> {
    let file = File::open(path).map_err(|error| explained("open the network namespace", path, &error))?;
    let kind = fstatfs(&file).map_err(|errno| explained("look at", path, &errno.into()))?.filesystem_type();
    if kind != NSFS_MAGIC {
        let message = format!("{} is no network namespace; give the path of one, such as /run/netns/NAME", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(Namespace { file, path: path.to_owned() })
}

/// Takes the name away. The namespace goes when nobody is in it and nobody holds it. One that is gone is no error.
pub fn delete(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // A plain file, or none, has no mount; the file still has to go.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(errno) => return Err(explained("unmount the network namespace", path, &errno.into())),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(explained("remove the network namespace", path, &error)),
        _ => Ok(()),
    }
}

/// The namespace of the calling thread.
pub fn current() -> io::Result<Namespace> {
    open(Path::new(OWN))
}

impl Namespace {
    /// The file it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both are the same namespace, by whatever names.
    pub fn is(&self, other: &Self) -> io::Result<bool> {
        let (one, two) = (self.file.metadata()?, other.file.metadata()?);
        Ok((one.dev(), one.ino()) == (two.dev(), two.ino()))
    }

    /// Another hold on the same namespace.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, path: self.path.clone() })
    }

    /// Runs `task` in the namespace: on a thread of its own that enters it and ends with the task.
    ///
    /// Sockets that the task opens belong to the namespace for good, whichever thread uses them later.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = || {
                setns(&self.file, CloneFlags::CLONE_NEWNET)
                    .map_err(|errno| explained("enter the network namespace", &self.path, &errno.into()))?;
                Ok(task())
            };
            thread::Builder::new().name("namespace".into()).spawn_scoped(scope, inside)?.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn wait_for_turn(directory: &Path) -> io::Result<Flock<File>> {
    let file = File::open(directory).map_err(|error| explained("open", directory, &error))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| explained("lock", directory, &errno.into()))
}

fn make_shared(directory: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    let share = || mount(none, directory, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    match share() {
        // No mount point yet: mounted on itself it becomes one.
        Err(Errno::EINVAL) => {
            mount(Some(directory), directory, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
            share()
        }
        other => other,
    }
}

/// Makes a namespace by sending a thread into a new one, and mounts it before the thread ends and takes it along.
fn mount_fresh(path: &Path) -> io::Result<()> {
    let none: Option<&str> = None;
    let make = || unshare(CloneFlags::CLONE_NEWNET).and_then(|()| mount(Some(OWN), path, none, MsFlags::MS_BIND, none));
    thread::scope(|scope| scope.spawn(make).join())
        .unwrap_or_else(|panic| resume_unwind(panic))
        .map_err(|errno| explained("make the network namespace", path, &errno.into()))
}

/// The error with what was tried on which path, and what one can do about it.
fn explained(operation: &str, path: &Path, error: &io::Error) -> io::Error {
    let remedy = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => "; it is gone: make it again, or give the path of one that is there",
        Some(Errno::EPERM | Errno::EACCES) => "; it takes root, or a user namespace with a mount namespace of its own",
        Some(Errno::EINVAL) => "; it is no network namespace any more: delete it and make it again",
        Some(Errno::ENOSPC) => "; the limit in /proc/sys/user/max_net_namespaces is reached",
        _ => "",
    };
    io::Error::new(error.kind(), format!("could not {operation} {}: {error}{remedy}", path.display()))
}
