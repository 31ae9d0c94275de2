//! Where a lab can be found from outside: a directory by its name, with a socket to talk to it, its process and its kubeconfig.
//!
//! Everything else of a lab is inside its own namespaces and goes with them. The directory is all that can be left behind, and whoever next
//! asks for the lab takes it away.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Pid, geteuid};

/// Names the directory of all labs, for whoever wants another.
pub const VARIABLE: &str = "TRANSOM_LAB_DIR";

/// The name of a lab that nobody has named.
pub const DEFAULT_NAME: &str = "default";

/// What it made in a cluster of others, in a lab's directory.
pub(crate) const RECORD: &str = "made";

/// The socket that leads to such a cluster, in a lab's directory.
pub(crate) const GATEWAY: &str = "gateway.sock";

/// The directory of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    name: String,
    directory: PathBuf,
}

/// The directory of all labs of this user.
pub fn base() -> PathBuf {
    if let Some(directory) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return directory.into();
    }
    let user = geteuid();
    if user.is_root() {
        return "/run/transom/lab".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|directory| directory.is_dir()) {
        Some(directory) => directory.join("transom/lab"),
        None => std::env::temp_dir().join(format!("transom-{user}/lab")),
    }
}

/// The labs that run, by name, and those that have left something behind.
pub fn list() -> io::Result<Vec<Home>> {
    let entries = match fs::read_dir(base()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut homes: Vec<Home> = entries.flatten().filter_map(|entry| Some(Home::of(entry.file_name().to_str()?))).collect();
    homes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(homes)
}

impl Home {
    /// The directory of a lab by name, there or not.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), directory: base().join(name) }
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How the lab is talked to.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    /// How Kubernetes clients reach it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// What its supervisor said.
    pub fn log(&self) -> PathBuf {
        self.directory.join("supervisor.log")
    }

    /// Where is written down what it made in a cluster of others.
    pub fn record(&self) -> PathBuf {
        self.directory.join(RECORD)
    }

    /// Where its gateway listens.
    pub(crate) fn gateway_socket(&self) -> PathBuf {
        self.directory.join(GATEWAY)
    }

    fn gateway_file(&self) -> PathBuf {
        self.directory.join("gateway.pid")
    }

    /// Notes the process that leads to a cluster of others.
    pub(crate) fn set_gateway(&self, pid: u32) -> io::Result<()> {
        fs::write(self.gateway_file(), pid.to_string())
    }

    /// The process that leads to a cluster of others.
    pub(crate) fn gateway(&self) -> Option<Pid> {
        read_pid(&self.gateway_file())
    }

    fn lock_file(&self) -> PathBuf {
        self.directory.join("lock")
    }

    fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }

    /// Makes the directory, for its owner alone.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.directory)
    }

    /// Takes the lab's lock, which is held for as long as it runs; none if somebody has it.
    pub fn lock(&self) -> io::Result<Option<Flock<File>>> {
        let file = File::options().create(true).append(true).open(self.lock_file())?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(errno.into()),
        }
    }

    /// Whether the lab runs.
    pub fn is_running(&self) -> bool {
        self.lock_file().exists() && matches!(self.lock(), Ok(None))
    }

    /// Notes the process that everything of the lab ends with.
    pub fn set_process(&self, pid: u32) -> io::Result<()> {
        fs::write(self.pid_file(), pid.to_string())
    }

    /// The process that everything of the lab ends with.
    pub fn process(&self) -> Option<Pid> {
        read_pid(&self.pid_file())
    }

    /// The root of the lab's file systems, as the machine sees it: through the lab's first process.
    pub fn root(&self) -> Option<PathBuf> {
        self.process().map(|pid| PathBuf::from(format!("/proc/{pid}/root")))
    }

    /// The socket of a Windows node's switch, as the machine sees it.
    pub fn switch_of(&self, node: &str) -> Option<PathBuf> {
        let socket = crate::node::directory(node).join(crate::node::SWITCH);
        Some(self.root()?.join(socket.strip_prefix("/").ok()?))
    }

    /// Takes away what a lab that does not run any more has left behind. Returns whether there was anything.
    pub fn clear(&self) -> io::Result<bool> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }
}

fn read_pid(file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(file).ok()?;
    text.trim().parse().ok().filter(|pid| *pid > 1).map(Pid::from_raw)
}
