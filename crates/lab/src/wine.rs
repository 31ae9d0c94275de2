//! Wine for programs of Windows on a node: a prefix of the node's own, over the one of whoever started the lab.
//!
//! Sockets of programs under Wine are made by a server, one for every prefix. A node therefore has a server in its network namespace, and a
//! prefix that no other node has. It is an overlay: what is read comes from the user's prefix, and what is written goes with the lab.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::daemon::{Program, Readiness};
use crate::isolation::Obstacle;

/// What runs programs of Windows.
pub(crate) const PROGRAM: &str = "wine";

/// What serves them.
const SERVER: &str = "wineserver";

/// Our DLLs, which lead to hnsd.
const DLLS: [&str; 2] = ["computenetwork.dll", "vmcompute.dll"];

/// What there has to be for prefixes of nodes.
const OVERLAY: &str = "every node that runs programs of Windows has an overlay over the Wine prefix: load the module with `modprobe overlay`, \
    and have the prefix and /tmp on a file system that is no overlay of overlays";

/// The Wine of a node.
#[derive(Clone, Debug)]
pub(crate) struct Wine {
    prefix: PathBuf,
}

/// Looks whether there is a Wine with our DLLs, before anything is made.
pub(crate) fn check() -> Result<(), String> {
    for program in [PROGRAM, SERVER] {
        if find(program).is_none() {
            return Err(format!("{program} is not to be found; install Wine, for example with `apt install wine64`"));
        }
    }
    let prefix = users_prefix();
    let system = prefix.join("drive_c/windows/system32");
    if !system.is_dir() {
        return Err(format!("{} is no Wine prefix; make it one with `wineboot --init`, or name another with WINEPREFIX", prefix.display()));
    }
    match DLLS.iter().map(|name| system.join(name)).find(|dll| !dll.is_file()) {
        Some(dll) => {
            Err(format!("{} is missing; build it with `cargo xtask dist`, and copy the DLLs of dist/windows there", dll.display()))
        }
        None => Ok(()),
    }
}

/// The prefix of whoever started the lab.
fn users_prefix() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WINEPREFIX").unwrap_or_else(|| variable("HOME").unwrap_or_default().join(".wine"))
}

/// Where a program is, as a shell would find it.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// A path of this system as programs of Windows read it.
pub(crate) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display())
}

/// Keeps what Wine puts into /tmp in the lab. What the machine has there is seen, and not changed.
pub(crate) fn own_temporary_files() -> Result<(), Obstacle> {
    let temporary = Path::new("/tmp");
    overlay(temporary, temporary, Path::new("/run/lab/tmp"))?;
    // Wine wants this one to be its own, and on the machine it may be another's.
    let servers = "/tmp/.wine-0";
    fs::create_dir_all(servers).map_err(obstacle(format!("make {servers}")))?;
    let mounted = mount(Some("tmpfs"), servers, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=0700"));
    mounted.map_err(io::Error::from).map_err(obstacle(format!("mount tmpfs on {servers}")))
}

impl Wine {
    /// Makes the prefix of a node, among its files.
    pub(crate) fn make(directory: &Path) -> Result<Self, Obstacle> {
        let prefix = directory.join("wine");
        fs::create_dir_all(&prefix).map_err(obstacle(format!("make {}", prefix.display())))?;
        overlay(&users_prefix(), &prefix, &directory.join("wine.own"))?;
        // Debian's Wine notes in the prefix where its server is to be found. That is the machine's, and not this node's.
        match fs::remove_file(prefix.join(SERVER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(obstacle(format!("change {}", prefix.display()))(error)),
            _ => Ok(Self { prefix }),
        }
    }

    /// What programs need around them to run in this prefix.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let prefix = self.prefix.display().to_string();
        // No dialogs about Mono and Gecko, no desktop, and no wmic: services would be started for it that keep everybody's output open.
        let usual = [
            ("WINEPREFIX", prefix.as_str()),
            ("WINEARCH", "win64"),
            ("WINEDEBUG", "-all"),
            ("WINEDLLOVERRIDES", "mscoree,mshtml,wmic.exe="),
            ("DISPLAY", ""),
        ];
        usual.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// The server of a node's programs.
    pub(crate) fn server(&self, node: &str) -> Program {
        let command = [SERVER, "--foreground", "--persistent"].map(str::to_owned).to_vec();
        let name = format!("{node}/{SERVER}");
        Program { name, role: SERVER.to_owned(), command, variables: self.variables(), readiness: Readiness::Start }
    }
}

/// Mounts a directory over itself or elsewhere, so that changes are kept in another.
fn overlay(below: &Path, place: &Path, own: &Path) -> Result<(), Obstacle> {
    let doing = || format!("mount an overlay of {} on {}", below.display(), place.display());
    let [upper, work] = ["upper", "work"].map(|name| own.join(name));
    let make = || -> io::Result<()> {
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&work)?;
        // The place has the mode of what is uppermost.
        fs::set_permissions(&upper, fs::Permissions::from_mode(fs::metadata(below)?.permissions().mode()))
    };
    make().map_err(obstacle(doing()))?;
    let options = format!("lowerdir={},upperdir={},workdir={}", escaped(below), escaped(&upper), escaped(&work));
    let try_with = |options: &str| mount(Some("overlay"), place, Some("overlay"), MsFlags::empty(), Some(options));
    // Without root the marks of an overlay are attributes of users, which older kernels do not know.
    let mounted = try_with(&format!("userxattr,{options}")).or_else(|_| try_with(&options));
    mounted.map_err(io::Error::from).map_err(obstacle(doing()))
}

/// A path as an option of a mount.
fn escaped(path: &Path) -> String {
    let text = path.display().to_string();
    text.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,")
}

fn obstacle(doing: String) -> impl FnOnce(io::Error) -> Obstacle {
    move |error| Obstacle { doing, error, remedy: OVERLAY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_their_readers_want_them() {
        assert_eq!(escaped(Path::new("/a:b,c\\d")), "/a\\:b\\,c\\\\d");
        assert_eq!(windows_path(Path::new("/run/lab/kubeconfig")), "Z:/run/lab/kubeconfig");
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert!(find("/nowhere/sh").is_none() && find("no-such-program").is_none());
    }
}
