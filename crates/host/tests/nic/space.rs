//! A network namespace for a test.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::geteuid;

use crate::cable::until;

/// A network namespace with nothing in it but a loopback adapter that is up. It goes when the value does.
pub(crate) struct Space {
    file: File,
}

impl Space {
    /// Makes one.
    pub(crate) fn new() -> Self {
        let space = Self::try_new().expect("a network namespace");
        space.ip("link set lo up");
        space
    }

    fn try_new() -> nix::Result<Self> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(Self { file: File::open("/proc/thread-self/ns/net").expect("the namespace of this thread") })
        };
        thread::scope(|scope| scope.spawn(make).join().expect("the thread has ended"))
    }

    /// Runs something inside.
    pub(crate) fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            setns(&self.file, CloneFlags::CLONE_NEWNET).expect("the namespace can be entered");
            task()
        };
        thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` inside with these words as arguments, and answers what it prints.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        let output = self.run(|| Command::new("ip").args(arguments.split_whitespace()).output().expect("ip (iproute2) starts"));
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The index of an adapter inside.
    pub(crate) fn index(&self, adapter: &str) -> u32 {
        self.run(|| nix::net::if_::if_nametoindex(adapter)).expect(adapter)
    }

    /// A path that names it for `ip`.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// Two namespaces joined by a veth pair: `left` in the first, `right` in the second, both up and working.
pub(crate) fn joined() -> (Space, Space) {
    let (one, other) = (Space::new(), Space::new());
    one.ip(&format!("link add left type veth peer name right netns {}", other.path()));
    one.ip("link set left up");
    other.ip("link set right up");
    // The kernel drops what is sent before it has noticed that both ends are up.
    until("both ends are up", || one.ip("link show left").contains("state UP") && other.ip("link show right").contains("state UP"));
    (one, other)
}

/// Runs a test where it may make namespaces: here as root, and otherwise in a process of its own that plays root.
/// `name` is the test's own.
pub(crate) fn isolated(name: &str, needs_tun: bool, test: fn()) {
    if needs_tun && let Err(error) = File::options().read(true).write(true).open("/dev/net/tun") {
        println!("skipped: /dev/net/tun cannot be opened: {error}");
        return;
    }
    if !geteuid().is_root() {
        return as_root_of_a_namespace(name);
    }
    match Space::try_new() {
        Ok(_) => test(),
        Err(error) => println!("skipped: network namespaces are not allowed: {error}"),
    }
}

fn as_root_of_a_namespace(name: &str) {
    let unshare = ["--user", "--map-root-user", "--net", "--"];
    let allowed = Command::new("unshare").args(unshare).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: user namespaces are not allowed");
        return;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let status = Command::new("unshare").args(unshare).arg(program).args(["--exact", name, "--nocapture"]).status();
    assert!(status.expect("unshare starts").success(), "{name} failed in a user namespace");
}
