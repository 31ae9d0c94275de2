//! Running commands inside of a lab, with the terminal of whoever runs them.
//!
//! A process joins the lab's namespaces, and those that it starts are in them. Where to go from there is told to the first of them, which is
//! this program once more: a PID namespace is entered by children only.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use nix::sched::{CloneFlags, setns};
use nix::unistd::{Pid, geteuid};

use crate::daemon::own_program;
use crate::home::Home;
use crate::launch::COMMAND;
use crate::underlay::NAMESPACES;

/// Where in a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a container, by the process that it ends with, as processes of the lab see it.
    Container(u32),
    /// In a network namespace, by its file inside.
    Network(String),
}

/// What this program is called.
const NAME: &str = "transom";

/// The argument by which the program is told to join a lab, and to run a command there.
pub const JOIN: &str = "join";

/// The argument by which the program is told to go on from inside of the lab.
pub const ARGUMENT: &str = "enter";

impl Place {
    /// On the host outside.
    pub fn outside() -> Self {
        Self::Network(format!("{NAMESPACES}/outside"))
    }

    /// On the router, whose network namespace is that of the lab's first process.
    pub fn router() -> Self {
        Self::network_of(1)
    }

    /// In the network namespace of a process, as processes of the lab see it.
    pub fn network_of(pid: u32) -> Self {
        Self::Network(format!("/proc/{pid}/ns/net"))
    }

    /// As arguments.
    fn arguments(&self) -> [String; 2] {
        match self {
            Self::Container(pid) => ["container".to_owned(), pid.to_string()],
            Self::Network(path) => ["network".to_owned(), path.clone()],
        }
    }

    /// From arguments.
    pub fn read(kind: &str, value: &str) -> Option<Self> {
        match kind {
            "container" => value.parse().ok().map(Self::Container),
            "network" => Some(Self::Network(value.to_owned())),
            _ => None,
        }
    }
}

/// Runs a command somewhere in a lab, and waits for its end. Only for a process that has started no threads.
pub fn run(home: &Home, place: &Place, command: &[String]) -> io::Result<ExitStatus> {
    let init = home.process().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the lab has no process"))?;
    join(init)?;
    let [kind, value] = place.arguments();
    // A child is in the lab, and there it is found by this name also where the lab cannot see its path.
    Command::new(own_program()).args(COMMAND).args([ARGUMENT, home.name(), &kind, &value]).args(command).status()
}

/// A command that runs this program once more, somewhere in a lab. Unlike [`run`] it leaves the process that starts it where it is.
pub fn command(home: &Home, place: &Place, arguments: &[String]) -> Command {
    let [kind, value] = place.arguments();
    let mut command = Command::new(own_program());
    command.args(COMMAND).args([JOIN, home.name(), &kind, &value, &own_program()]).args(arguments);
    command
}

/// Joins the namespaces of a lab's first process.
fn join(init: Pid) -> io::Result<()> {
    let open = |name: &str| File::open(format!("/proc/{init}/ns/{name}"));
    let mut namespaces = Vec::new();
    if !geteuid().is_root() {
        namespaces.push((open("user")?, CloneFlags::CLONE_NEWUSER));
    }
    for (name, flag) in [
        ("pid", CloneFlags::CLONE_NEWPID),
        ("net", CloneFlags::CLONE_NEWNET),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
        // The last one, after which the files of the others are not to be found.
        ("mnt", CloneFlags::CLONE_NEWNS),
    ] {
        namespaces.push((open(name)?, flag));
    }
    for (file, flag) in namespaces {
        setns(file, flag)?;
    }
    Ok(())
}

/// Goes on from inside of the lab: runs a command at a place, and gives its exit code.
pub fn go_on(place: &Place, mut command: Vec<String>) -> io::Result<i32> {
    if let Some(program) = command.first_mut().filter(|program| *program == NAME) {
        // It is found by its name also where no path leads to it.
        *program = own_program();
    }
    match place {
        Place::Container(pid) => {
            let mut process = host::container::Process::new(command);
            process.environment = std::env::vars().filter(|(name, _)| matches!(name.as_str(), "TERM" | "LANG" | "LC_ALL")).collect();
            host::container::enter(*pid, &process)
        }
        Place::Network(path) => {
            let namespace = host::namespace::open(Path::new(path))?;
            let (program, arguments) =
                command.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command is given"))?;
            let status = namespace.run(|| Command::new(program).args(arguments).status())??;
            Ok(code(status))
        }
    }
}

/// The exit code of a process as shells tell it.
pub fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
