//! Namespaces of a lab's own, so that nothing of it is on the machine, and all of it goes with its first process.
//!
//! ```text
//! transom lab up ── starts ─► the launcher: takes a port of the machine for the API, leaves the machine's namespaces
//!                                └─ starts ─► init: process 1 of the lab, ends with the supervisor
//!                                                └─ starts ─► the supervisor: makes everything else
//!                └─ starts ─► the gateway: stays on the machine where the lab is in a cluster that is there already, and ends with the lab
//! ```
//!
//! When process 1 ends, in whatever way, the kernel ends all others of its PID namespace; with the last process in them the network namespaces
//! go, and with them their devices, and the mounts.

use std::fs;
use std::io;
use std::process::Child;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid, setsid};

/// Why there can be no lab here: what was tried, what the system said, and what to do.
#[derive(Debug)]
pub struct Obstacle {
    /// What was tried.
    pub doing: String,
    /// What the system said.
    pub error: io::Error,
    /// What to do.
    pub remedy: &'static str,
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "could not {}: {}; {}", self.doing, self.error, self.remedy)
    }
}

impl std::error::Error for Obstacle {}

fn obstacle(doing: impl Into<String>, remedy: &'static str) -> impl FnOnce(io::Error) -> Obstacle {
    let doing = doing.into();
    move |error| Obstacle { doing, error, remedy }
}

/// What a kernel or an administrator who forbids user namespaces has to be asked for.
const USER_NAMESPACES: &str = "as an ordinary user a lab needs user namespaces: allow them with \
    `sysctl kernel.unprivileged_userns_clone=1`, `sysctl user.max_user_namespaces=10000` and, where there is AppArmor, \
    `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run the lab as root";

/// What there has to be for NICs.
const TUN: &str =
    "NICs of pods are TAP devices: load the module with `modprobe tun`, or give the container the device with --device /dev/net/tun";

/// What there has to be for NICs of those who are not root.
const TUN_FOR_ALL: &str = "NICs of pods are TAP devices, and usually everybody may open it: allow it with `chmod 666 /dev/net/tun`, \
    or run the lab as root";

/// Looks whether the machine has what a lab needs, before anything is made.
pub fn check() -> Result<(), Obstacle> {
    let tun = "/dev/net/tun";
    fs::File::options().read(true).write(true).open(tun).map(drop).map_err(|error| {
        let remedy = if error.kind() == io::ErrorKind::PermissionDenied { TUN_FOR_ALL } else { TUN };
        obstacle(format!("open {tun}"), remedy)(error)
    })
}

/// Leaves the session, so that signals of the terminal are not for the lab.
pub fn leave_session() {
    // Whoever leads a session already has left the other one.
    _ = setsid();
}

/// Leaves the machine's namespaces. The next process that is started is process 1 of the lab.
pub fn leave_machine() -> Result<(), Obstacle> {
    let (user, group) = (geteuid(), getegid());
    let is_root = user.is_root();
    let mut flags =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if !is_root {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    let remedy = if is_root { "the lab needs CAP_SYS_ADMIN; in a container, run that one with --privileged" } else { USER_NAMESPACES };
    unshare(flags).map_err(io::Error::from).map_err(obstacle("make namespaces", remedy))?;
    if !is_root {
        let write = |file: &str, text: String| fs::write(file, text).map_err(obstacle(format!("write {file}"), USER_NAMESPACES));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("0 {user} 1"))?;
        write("/proc/self/gid_map", format!("0 {group} 1"))?;
    }
    Ok(())
}

/// Gives the lab file systems of its own where it writes. What is there on the machine is not seen inside, and not touched.
pub fn own_file_systems() -> Result<(), Obstacle> {
    const REMEDY: &str = "the lab needs to mount file systems in its own namespace";
    let none: Option<&str> = None;
    let own = |source: &str, target: &str, flags: MsFlags| {
        mount(Some(source), target, Some(source), flags, none)
            .map_err(io::Error::from)
            .map_err(obstacle(format!("mount {source} on {target}"), REMEDY))
    };
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(io::Error::from)
        .map_err(obstacle("make mounts private", REMEDY))?;
    own("proc", "/proc", MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC)?;
    own("tmpfs", "/run", MsFlags::MS_NOSUID | MsFlags::MS_NODEV)
}

/// Runs as process 1: waits for everybody whom nobody else waits for, until the supervisor ends.
pub fn init(supervisor: &Child) -> io::Result<WaitStatus> {
    let supervisor = Pid::from_raw(supervisor.id().cast_signed());
    loop {
        match waitpid(None, None) {
            Ok(status) if status.pid() == Some(supervisor) => return Ok(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
