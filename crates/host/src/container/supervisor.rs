//! Makes containers and looks after them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};

use super::channel::Channel;
use super::init::open_log_directory;
use super::message::{Output, Report, Request};
use super::watcher::Watcher;
use super::{MountTable, Process, SELF, Spec};
use crate::namespace::Namespace;

/// How long init may take to make its file system, and to start a process. A machine that makes a thousand at once is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the kernel may take to end processes that were killed.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// How many exit codes are kept for one who asks late. Most hear of them as events.
const EXITS_LIMIT: usize = 256;

/// How the init of a container is started: a program that calls [`init_main`](super::init_main) when it has these arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its arguments; the container's id comes after them.
    pub arguments: Vec<OsString>,
}

impl Default for Program {
    /// The running program itself, with the argument `container-init`.
    fn default() -> Self {
        Self { path: SELF.into(), arguments: vec!["container-init".into()] }
    }
}

/// What happened in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process has ended that was started through the container.
    Exited {
        /// Its number in the container.
        pid: u32,
        /// Its exit code; a signal is 128 and its number.
        code: i32,
    },
    /// The container is gone, with all of its processes.
    Ended,
}

/// Who hears of events. It is called from the one thread that looks after all containers, and must not wait for one of them.
pub type Listener = Arc<dyn Fn(Event) + Send + Sync>;

/// Where a process reads from and writes to.
#[derive(Debug)]
pub enum Streams {
    /// Nowhere.
    Null,
    /// It reads nothing, and writes to the container's log.
    Log,
    /// Open files: input, output, errors.
    Given([OwnedFd; 3]),
}

/// Makes containers, and hears of what happens in them.
#[derive(Debug)]
pub struct Supervisor {
    program: Program,
    table: Option<Arc<MountTable>>,
    watcher: Arc<Watcher>,
}

impl Supervisor {
    /// A supervisor whose containers have this program as their init.
    pub fn new(program: Program) -> io::Result<Self> {
        Ok(Self { program, table: None, watcher: Arc::new(Watcher::start()?) })
    }

    /// Makes containers from a mount table; without one they are made from the table as it is then.
    pub fn from_table(self, table: Option<Arc<MountTable>>) -> Self {
        Self { table, ..self }
    }

    /// Makes a container in a network namespace. No process but init runs in it.
    pub fn create(&self, spec: &Spec, network: &Namespace, listener: Listener) -> io::Result<Container> {
        let log = spec.log.as_deref().map(open_log_directory).transpose()?;
        let (near, far) = Channel::pair()?;
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments).arg(&spec.id).current_dir("/");
        command.stdin(far).stdout(Stdio::null()).stderr(Stdio::null());
        let child = spawn_inside(command, self.table.as_deref(), network)?;
        let shared = Arc::new(Shared::new(near, child, listener));
        let container = Container { shared, notes: Vec::new(), watcher: Arc::clone(&self.watcher) };
        container.watcher.watch(&container.shared)?;
        let files: Vec<BorrowedFd<'_>> = log.iter().map(AsFd::as_fd).collect();
        container.shared.channel.send(spec, &files)?;
        container.made()
    }
}

/// Starts a command as process 1 of new namespaces: from a thread that enters them first, and ends.
///
/// A process would have to be copied to enter them itself, which costs the more the larger the supervisor is.
fn spawn_inside(mut command: Command, table: Option<&MountTable>, network: &Namespace) -> io::Result<Child> {
    let inside = || {
        table.map_or(Ok(()), MountTable::enter)?;
        setns(network, CloneFlags::CLONE_NEWNET)?;
        // Process ids change for the children of the thread, and for nobody else.
        unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)?;
        command.spawn()
    };
    let spawned = thread::scope(|scope| {
        let thread = thread::Builder::new().name("container".into()).stack_size(256 << 10).spawn_scoped(scope, inside)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    spawned.map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "; it takes root, or a user namespace in which one is",
            io::ErrorKind::StorageFull => "; a limit in /proc/sys/user is reached",
            _ => "",
        };
        io::Error::new(error.kind(), format!("could not start the container's first process: {error}{remedy}"))
    })
}

/// A container that was made. It ends when this is dropped.
pub struct Container {
    shared: Arc<Shared>,
    notes: Vec<String>,
    watcher: Arc<Watcher>,
}

impl Container {
    fn made(mut self) -> io::Result<Self> {
        self.notes = match self.shared.answer()? {
            Report::Ready(notes) => notes,
            Report::Failed(message) => return Err(io::Error::other(format!("could not make the container: {message}"))),
            other => return Err(unexpected(&other)),
        };
        Ok(self)
    }

    /// The process id of its init, where the supervisor is.
    pub fn init_pid(&self) -> u32 {
        self.shared.pid
    }

    /// What is not quite as it should be, such as a file system that could not be made read-only.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Starts a process, and gives its number in the container.
    pub fn spawn(&self, process: &Process, streams: &Streams) -> io::Result<u32> {
        let (output, files) = match streams {
            Streams::Null => (Output::Null, Vec::new()),
            Streams::Log => (Output::Log, Vec::new()),
            Streams::Given(files) => (Output::Given, files.iter().map(AsFd::as_fd).collect()),
        };
        match self.shared.ask(&Request::Spawn(process.clone(), output), &files)? {
            Report::Spawned(pid) => Ok(pid),
            Report::Refused { os_error, message } => Err(refused(process.arguments.first().map_or("", String::as_str), os_error, &message)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a signal to a process by its number in the container.
    pub fn signal(&self, pid: u32, signal: i32) -> io::Result<()> {
        match self.shared.ask(&Request::Signal { pid, signal }, &[])? {
            Report::Signalled => Ok(()),
            Report::Refused { os_error, message } => Err(os_error.map_or_else(|| io::Error::other(message), io::Error::from_raw_os_error)),
            other => Err(unexpected(&other)),
        }
    }

    /// The exit code of a process; nothing if it has not ended in this time. The code is kept until it is asked for.
    pub fn wait_process(&self, pid: u32, timeout: Duration) -> Option<i32> {
        let mut state = self.shared.wait_while(timeout, |state| !state.exits.contains_key(&pid) && !state.has_ended);
        state.exits.remove(&pid)
    }

    /// Asks all processes to end, kills those that have not after `grace`, and waits until the container is gone.
    pub fn stop(&self, grace: Duration) -> io::Result<()> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        // Who cannot be asked is killed.
        if self.shared.channel.send(&Request::Stop { grace_ms }, &[]).is_ok() && self.wait(grace + Duration::from_secs(1)) {
            return Ok(());
        }
        self.kill()
    }

    /// Ends all processes at once, and waits until the container is gone.
    pub fn kill(&self) -> io::Result<()> {
        self.shared.kill()?;
        match self.wait(LAST_BREATH) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::TimedOut, "the container's processes do not end; the kernel may wait for a disk")),
        }
    }

    /// Whether the container is gone, or will be in this time.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait_while(timeout, |state| !state.has_ended).has_ended
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Its process table entry goes when the watcher has heard of the end.
        if !self.wait(Duration::ZERO) {
            let _ = self.shared.kill();
            self.wait(Duration::from_secs(1));
        }
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("init", &self.shared.pid).finish_non_exhaustive()
    }
}

fn unexpected(report: &Report) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the container's init answers something else: {report:?}"))
}

fn refused(program: &str, os_error: Option<i32>, message: &str) -> io::Error {
    let kind = os_error.map_or(io::ErrorKind::InvalidInput, |number| io::Error::from_raw_os_error(number).kind());
    io::Error::new(kind, format!("could not start {program}: {message}"))
}

/// What a container and the watcher both have.
pub(super) struct Shared {
    pub(super) channel: Channel,
    pid: u32,
    child: Mutex<Child>,
    state: Mutex<State>,
    changed: Condvar,
    /// One question at a time: an answer does not say what it answers.
    asking: Mutex<()>,
    listener: Listener,
}

#[derive(Default)]
struct State {
    answer: Option<Report>,
    exits: BTreeMap<u32, i32>,
    has_ended: bool,
}

impl State {
    fn keep_exit(&mut self, pid: u32, code: i32) {
        self.exits.insert(pid, code);
        if self.exits.len() > EXITS_LIMIT {
            self.exits.pop_first();
        }
    }
}

impl Shared {
    fn new(channel: Channel, child: Child, listener: Listener) -> Self {
        let pid = child.id();
        Self { channel, pid, child: child.into(), state: Mutex::default(), changed: Condvar::new(), asking: Mutex::default(), listener }
    }

    /// The process id of init.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    fn ask(&self, request: &Request, files: &[BorrowedFd<'_>]) -> io::Result<Report> {
        let _turn = lock(&self.asking);
        self.channel.send(request, files)?;
        self.answer()
    }

    fn answer(&self) -> io::Result<Report> {
        let mut state = self.wait_while(PATIENCE, |state| state.answer.is_none() && !state.has_ended);
        match state.answer.take() {
            Some(answer) => Ok(answer),
            None if state.has_ended => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the container has ended")),
            None => Err(io::Error::new(io::ErrorKind::TimedOut, "the container's init does not answer")),
        }
    }

    fn wait_while(&self, timeout: Duration, mut is_early: impl FnMut(&State) -> bool) -> MutexGuard<'_, State> {
        let until = Instant::now().checked_add(timeout);
        let mut state = lock(&self.state);
        while is_early(&state) {
            let left = until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// Ends init, and everybody with it. Once it has ended, its number may be somebody else's.
    fn kill(&self) -> io::Result<()> {
        match lock(&self.state).has_ended {
            true => Ok(()),
            false => lock(&self.child).kill(),
        }
    }

    /// Takes one report, which must be there. False if there will be none any more.
    pub(super) fn take_report(&self) -> bool {
        let Ok(Some((report, _))) = self.channel.receive::<Report>() else {
            return false;
        };
        match report {
            Report::Exited { pid, code } => {
                (self.listener)(Event::Exited { pid, code });
                lock(&self.state).keep_exit(pid, code);
            }
            answer => lock(&self.state).answer = Some(answer),
        }
        self.changed.notify_all();
        true
    }

    /// Takes note that init has ended, which it must have.
    pub(super) fn take_end(&self) {
        let _ = lock(&self.child).wait();
        (self.listener)(Event::Ended);
        lock(&self.state).has_ended = true;
        self.changed.notify_all();
    }
}

/// A lock whose holder panicked has state that is whole all the same: every change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
