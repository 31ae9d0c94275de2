//! Starting a lab's processes, in the order that [`crate::isolation`] draws.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use nix::sys::wait::WaitStatus;

use crate::daemon::own_program;
use crate::existing::Existing;
use crate::home::{self, Home};
use crate::isolation::{self, Obstacle};

/// The command by which the program runs as one of a lab's first processes.
pub const COMMAND: [&str; 2] = ["lab", "process"];

/// Which of the first processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Leaves the machine's namespaces and starts the next.
    Launcher,
    /// Process 1.
    Init,
    /// Makes everything else.
    Supervisor,
    /// Stays on the machine, and leads to a cluster that is there already.
    Gateway,
}

impl Role {
    /// As an argument.
    pub fn label(self) -> &'static str {
        match self {
            Self::Launcher => "launcher",
            Self::Init => "init",
            Self::Supervisor => "supervisor",
            Self::Gateway => "gateway",
        }
    }

    /// From an argument.
    pub fn read(text: &str) -> Option<Self> {
        [Self::Launcher, Self::Init, Self::Supervisor, Self::Gateway].into_iter().find(|role| role.label() == text)
    }
}

/// Why a lab could not be started.
#[derive(Debug)]
pub enum LaunchError {
    /// It runs already.
    Running(String),
    /// The machine lacks something.
    Obstacle(Obstacle),
    /// A port of the machine is taken.
    Port(SocketAddr, io::Error),
    /// A lab of this name has left something in a cluster.
    Left(String),
    /// The system refused something.
    Io(String, io::Error),
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running(name) => {
                write!(f, "the lab {name:?} runs already; end it with `transom lab down --name {name}`, or choose another --name")
            }
            Self::Obstacle(obstacle) => obstacle.fmt(f),
            Self::Port(address, error) => write!(f, "could not listen on {address}: {error}; choose another with --api-port, or 0 for any"),
            Self::Left(cause) => f.write_str(cause),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}{}", room(error)),
        }
    }
}

impl std::error::Error for LaunchError {}

/// What to do about a disk that is full.
pub(crate) fn room(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room, or choose another directory with TRANSOM_LAB_DIR",
        _ => "",
    }
}

fn refused(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LaunchError {
    let doing = doing.into();
    move |error| LaunchError::Io(doing, error)
}

/// Looks whether a lab of this name can be started, and takes away what the last one has left in a cluster of others.
pub fn prepare(home: &Home) -> Result<(), LaunchError> {
    if home.is_running() {
        return Err(LaunchError::Running(home.name().to_owned()));
    }
    crate::remove::remove(home).map_err(|cause| LaunchError::Left(format!("the last lab {:?}: {cause}", home.name())))
}

/// Starts a lab that is empty and waits to be told what to make. Its API will be at this port of the machine, if it is not one that is there
/// already.
pub fn launch(home: &Home, api_port: u16, existing: Option<&Existing>) -> Result<(), LaunchError> {
    isolation::check().map_err(LaunchError::Obstacle)?;
    prepare(home)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, api_port));
    let listener = TcpListener::bind(address).map_err(|error| LaunchError::Port(address, error))?;
    home.clear().map_err(refused(format!("take away {}", home.directory().display())))?;
    let outcome = begin(home, listener, existing);
    if outcome.is_err() {
        _ = home.clear();
    }
    outcome
}

fn begin(home: &Home, listener: TcpListener, existing: Option<&Existing>) -> Result<(), LaunchError> {
    home.make().map_err(refused(format!("make {}", home.directory().display())))?;
    let log = home.log();
    let written = File::create(&log).and_then(|mut file| writeln!(file, "the lab {:?} begins", home.name()).map(|()| file));
    // What cannot be written now would not tell what goes wrong later either.
    let file = written.map_err(refused(format!("write {}", log.display())))?;
    if let Some(existing) = existing {
        start_gateway(home, existing, &file).map_err(refused("start the lab's gateway"))?;
    }
    let output = process(Role::Launcher, home)
        // A process gets what it needs from outside as its standard input.
        .stdin(OwnedFd::from(listener))
        .stderr(file)
        .output()
        .map_err(refused("start the lab's first process"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let cause = said.lines().skip(1).collect::<Vec<_>>().join("\n");
            Err(LaunchError::Io("start the lab".to_owned(), io::Error::other(cause)))
        }
    }
}

/// Starts the process that stays on the machine. If no lab comes it ends by itself.
fn start_gateway(home: &Home, existing: &Existing, log: &File) -> io::Result<()> {
    let listener = UnixListener::bind(home.gateway_socket())?;
    let mut command = process(Role::Gateway, home);
    command.args([existing.host.as_str(), &existing.port.to_string()]);
    let child = command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(log.try_clone()?).spawn()?;
    home.set_gateway(child.id())
}

/// Runs as the gateway, to a host and a port.
pub fn run_gateway(rest: &[String]) -> Result<(), String> {
    let [host, port] = rest else { return Err("a gateway is told a host and a port".to_owned()) };
    let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    isolation::leave_session();
    crate::gateway::run(host, port).map_err(|error| format!("the gateway failed: {error}"))
}

/// The command of one of the first processes.
fn process(role: Role, home: &Home) -> Command {
    let mut command = Command::new(own_program());
    command.args(COMMAND).args([role.label(), home.name()]);
    // An ordinary user is root inside, and would look elsewhere.
    command.env(home::VARIABLE, home::base());
    command
}

/// Runs as the launcher: leaves the machine and starts process 1, which stays when the launcher goes.
pub fn run_launcher(home: &Home) -> Result<(), String> {
    isolation::leave_session();
    isolation::leave_machine().map_err(|error| error.to_string())?;
    let child = process(Role::Init, home).stdin(Stdio::inherit()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("process 1 could not be started: {error}"))?;
    home.set_process(child.id()).map_err(|error| {
        // Nobody would find it again. With process 1 goes everything.
        _ = child.kill().and_then(|()| child.wait());
        format!("the lab's process could not be noted: {error}{}", room(&error))
    })
}

/// Runs as process 1.
pub fn run_init(home: &Home) -> Result<(), String> {
    let supervisor = process(Role::Supervisor, home).stdin(Stdio::inherit()).spawn();
    let supervisor = supervisor.map_err(|error| format!("the supervisor could not be started: {error}"))?;
    match isolation::init(&supervisor) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        Ok(status) => {
            _ = writeln!(io::stderr(), "the supervisor ended with {status:?}, and the lab with it");
            Err("the supervisor failed".to_owned())
        }
        Err(error) => Err(format!("waiting for the supervisor failed: {error}")),
    }
}
