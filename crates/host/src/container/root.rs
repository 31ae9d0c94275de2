//! A root directory in memory, with everything of the machine's own in it, so that new names can stand beside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::pivot_root;

use super::tree::{Tree, explained};

/// Where the new root is put together. Every machine has the place, and it is not needed meanwhile.
const STAGE: &str = "/proc";

/// What is in the root directory.
enum Entry {
    Link(PathBuf),
    Tree(Tree),
}

/// Changes the root directory of the calling process, which must have a mount table of its own. Gives the layers that are there
/// now: the root, which is memory, and the machine's directories in it.
pub(super) fn rebuild() -> io::Result<Vec<(PathBuf, bool)>> {
    let entries = fs::read_dir("/")?.map(|entry| take(&entry?)).collect::<io::Result<Vec<_>>>()?;
    let (kind, flags) = (Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV);
    mount(kind, STAGE, kind, flags, Some("mode=755,size=1m"))
        .map_err(|errno| explained("mount memory on", Path::new(STAGE), &errno.into()))?;
    let mut layers = vec![(PathBuf::from("/"), true)];
    for (name, entry) in entries {
        put(&Path::new(STAGE).join(&name), entry)?;
        layers.push((Path::new("/").join(name), false));
    }
    std::env::set_current_dir(STAGE)?;
    // The old root comes to lie on the new one, and is taken away.
    pivot_root(".", ".").map_err(|errno| explained("make a root of", Path::new(STAGE), &errno.into()))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(|errno| explained("unmount", Path::new("the old root"), &errno.into()))?;
    std::env::set_current_dir("/")?;
    Ok(layers)
}

fn take(entry: &fs::DirEntry) -> io::Result<(OsString, Entry)> {
    let taken = match entry.file_type()?.is_symlink() {
        true => Entry::Link(fs::read_link(entry.path())?),
        false => Entry::Tree(Tree::take(&entry.path())?),
    };
    Ok((entry.file_name(), taken))
}

fn put(path: &Path, entry: Entry) -> io::Result<()> {
    match entry {
        Entry::Link(leads_to) => symlink(leads_to, path),
        Entry::Tree(tree) => {
            match tree.is_directory {
                true => fs::create_dir(path)?,
                false => drop(File::create(path)?),
            }
            tree.attach(path)
        }
    }
}
