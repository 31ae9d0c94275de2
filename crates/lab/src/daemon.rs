//! Programs that run for as long as the lab does. One that ends is started again, as a service manager would.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use host::namespace::Namespace;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::status::DaemonStatus;

/// Where logs are.
pub(crate) const LOGS: &str = "/run/lab/log";

/// How long a program may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long is waited before a program is started again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How much of a log is told when a program fails.
const TAIL: u64 = 4096;

/// How a program says that it is ready.
#[derive(Clone, Debug)]
pub(crate) enum Readiness {
    /// By a line on its standard output that begins with `ready`.
    Line,
    /// By being asked over HTTP, in its network namespace.
    Http(&'static str, &'static str),
    /// By running.
    Start,
}

/// How a program is run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// What it is called.
    pub(crate) name: String,
    /// What it is called among those of its node.
    pub(crate) role: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Variables besides those of the lab.
    pub(crate) variables: Vec<(String, String)>,
    /// How it says that it is ready.
    pub(crate) readiness: Readiness,
}

impl Program {
    /// A role of transom itself.
    pub(crate) fn role(host: &str, role: &str, arguments: &[String]) -> Self {
        let mut command = vec![own_program(), role.to_owned()];
        command.extend_from_slice(arguments);
        Self { name: format!("{host}/{role}"), role: role.to_owned(), command, variables: Vec::new(), readiness: Readiness::Line }
    }

    pub(crate) fn ready_by(self, readiness: Readiness) -> Self {
        Self { readiness, ..self }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    fn log(&self) -> PathBuf {
        Path::new(LOGS).join(format!("{}.log", self.name.replace('/', "-")))
    }
}

/// This very program, whatever became of its file.
pub(crate) fn own_program() -> String {
    "/proc/self/exe".to_owned()
}

/// A program that runs, and is started again when it ends.
#[derive(Clone)]
pub(crate) struct Daemon {
    program: Arc<Program>,
    state: watch::Receiver<DaemonStatus>,
}

/// A program that did not become ready.
#[derive(Debug)]
pub(crate) struct NotReady {
    /// What it is and why.
    pub(crate) cause: String,
    /// What it logged last.
    pub(crate) log: Vec<String>,
}

impl Daemon {
    /// Starts a program in a network namespace; none is that of the supervisor.
    pub(crate) fn start(program: Program, namespace: Option<Arc<Namespace>>) -> Self {
        let program = Arc::new(program);
        let beginning = DaemonStatus { name: program.role.clone(), trouble: "starting".to_owned(), ..DaemonStatus::default() };
        let (report, state) = watch::channel(beginning);
        tokio::spawn(keep(program.clone(), namespace, report));
        Self { program, state }
    }

    /// Waits until it is ready. One that ended instead is told of at once.
    pub(crate) async fn ready(&self) -> Result<(), NotReady> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| state.is_ready || state.restarts > 0);
        let outcome = tokio::time::timeout(PATIENCE, settled).await;
        let trouble = match outcome {
            Ok(Ok(state)) if state.is_ready => return Ok(()),
            Ok(Ok(state)) => state.trouble.clone(),
            Ok(Err(_)) => "it is not watched any more".to_owned(),
            Err(_) => format!("it was not ready after {} s", PATIENCE.as_secs()),
        };
        Err(NotReady { cause: format!("{}: {trouble}", self.program.name), log: tail(&self.program.log()) })
    }

    /// How it is.
    pub(crate) fn status(&self) -> DaemonStatus {
        self.state.borrow().clone()
    }
}

/// A program that runs until this is dropped, and is not started again.
pub(crate) struct Guest(#[expect(dead_code, reason = "it ends with this value")] Child);

impl Guest {
    /// Starts a program in a network namespace, and waits until it says that it is ready.
    pub(crate) async fn start(program: &Program, namespace: &Namespace) -> Result<Self, NotReady> {
        let not_ready = |cause: String| NotReady { cause: format!("{}: {cause}", program.name), log: tail(&program.log()) };
        let mut child = spawn(program, Some(namespace)).map_err(|error| not_ready(format!("it could not be started: {error}")))?;
        let output = child.stdout.take();
        tokio::select! {
            status = child.wait() => {
                Err(not_ready(status.map_or_else(|error| error.to_string(), |status| format!("it ended with {status}"))))
            }
            () = line(output) => Ok(Self(child)),
            () = tokio::time::sleep(PATIENCE) => Err(not_ready(format!("it was not ready after {} s", PATIENCE.as_secs()))),
        }
    }
}

/// The last lines of a log.
fn tail(path: &Path) -> Vec<String> {
    let read = || -> io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[lines.len().saturating_sub(10)..].to_vec()
}

/// Runs a program again and again.
async fn keep(program: Arc<Program>, namespace: Option<Arc<Namespace>>, report: watch::Sender<DaemonStatus>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let begin = std::time::Instant::now();
        let ended = run(&program, namespace.as_deref(), &report).await;
        let cause = match ended {
            Ok(status) => format!("it ended with {status}"),
            Err(error) => format!("it could not be started: {error}"),
        };
        tracing::warn!(program = program.name, cause, "starting it again");
        report.send_modify(|state| {
            state.is_ready = false;
            state.restarts += 1;
            state.trouble = cause;
        });
        // Whoever ran for a while may be started at once.
        pause = if begin.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(pause).await;
    }
}

async fn run(
    program: &Program,
    namespace: Option<&Namespace>,
    report: &watch::Sender<DaemonStatus>,
) -> io::Result<std::process::ExitStatus> {
    let mut child = spawn(program, namespace)?;
    let output = child.stdout.take();
    let ready = async {
        match &program.readiness {
            Readiness::Line => line(output).await,
            Readiness::Http(address, path) => until_answered(namespace, address, path).await,
            Readiness::Start => {}
        }
    };
    tokio::select! {
        status = child.wait() => return status,
        () = ready => {}
    }
    report.send_modify(|state| {
        state.is_ready = true;
        state.trouble.clear();
    });
    child.wait().await
}

/// Starts the program's process, with its output in its log.
fn spawn(program: &Program, namespace: Option<&Namespace>) -> io::Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(program.log())?;
    let mut command = Command::new(&program.command[0]);
    command.args(&program.command[1..]).envs(program.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stderr(log.try_clone()?).kill_on_drop(true);
    match program.readiness {
        Readiness::Line => command.stdout(Stdio::piped()),
        _ => command.stdout(log),
    };
    let runtime = Handle::current();
    match namespace {
        Some(namespace) => namespace.run(move || {
            let _guard = runtime.enter();
            command.spawn()
        })?,
        None => command.spawn(),
    }
}

/// Waits for the line, and reads on after it, so that nobody ever writes into a closed pipe.
async fn line(output: Option<tokio::process::ChildStdout>) {
    let Some(output) = output else { return std::future::pending().await };
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.starts_with("ready") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return;
        }
    }
    std::future::pending().await
}

/// Asks until the answer is good.
async fn until_answered(namespace: Option<&Namespace>, address: &str, path: &str) {
    let Some(namespace) = namespace else { return };
    loop {
        if crate::http::get_in(namespace, address, path).await.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
