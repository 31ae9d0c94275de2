//! A process of its own for each test, in namespaces of its own, and what is made in them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::container::{Container, Event, Process, Program, Spec, Streams, Supervisor};
use host::namespace::{self, Namespace};
use nix::mount::{MsFlags, mount};
use nix::unistd::geteuid;

/// Set in the process inside.
const INSIDE: &str = "TRANSOM_CONTAINERS_INSIDE";

/// Long enough for any step on a slow machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A directory that goes with the sandbox.
pub(crate) const DIRECTORY: &str = "/mnt";

/// Who runs a test.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Whoever started it; a user is root in a user namespace.
    Starter,
    /// A user that is not root, and root in a user namespace.
    User,
}

/// Runs `body`, which is that of the test called `test`, in sandboxes.
pub(crate) fn run(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        mount(Some("tmpfs"), DIRECTORY, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        return body();
    }
    for role in [Role::Starter, Role::User] {
        match obstacle(role) {
            Some(why) => println!("skipped: {role:?}: {why}"),
            None => run_as(role, test),
        }
    }
}

fn run_as(role: Role, test: &str) {
    let exe = std::env::current_exe().unwrap();
    let output = enter(role).arg(exe).args([test, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{role:?}: {text}");
    assert!(text.contains("1 passed"), "no test is called {test}: {text}");
    text.lines().filter(|line| line.starts_with("note")).for_each(|line| println!("{role:?}: {line}"));
}

fn obstacle(role: Role) -> Option<String> {
    let mut readable = enter(role);
    readable.arg("test").arg("-x").arg(std::env::current_exe().unwrap());
    match readable.output() {
        Err(error) => Some(format!("a command cannot be run: {error}")),
        Ok(output) if !output.status.success() => Some(format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr))),
        Ok(_) => None,
    }
}

fn enter(role: Role) -> Command {
    let is_root = geteuid().is_root();
    let mut command = match (role, is_root) {
        (Role::User, true) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare"]);
            command
        }
        _ => Command::new("unshare"),
    };
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !is_root || matches!(role, Role::User) {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// What a container is made of, and everything that was heard of it.
pub(crate) struct World {
    pub(crate) network: Namespace,
    pub(crate) supervisor: Supervisor,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let network = namespace::create(&Path::new(DIRECTORY).join("netns"), "pod").unwrap();
        Self { network, supervisor: Supervisor::new(program()).unwrap(), events: Arc::default() }
    }

    pub(crate) fn create(&self, spec: &Spec) -> Container {
        self.try_create(spec).unwrap()
    }

    pub(crate) fn try_create(&self, spec: &Spec) -> std::io::Result<Container> {
        let events = Arc::clone(&self.events);
        self.supervisor.create(spec, &self.network, Arc::new(move |event| events.lock().unwrap().push(event)))
    }
}

/// The program under test as the init of containers.
pub(crate) fn program() -> Program {
    Program { path: env!("CARGO_BIN_EXE_transom").into(), ..Program::default() }
}

pub(crate) fn spec() -> Spec {
    Spec { id: "pod".into(), host_name: "web-0".into(), log: Some(log_path()), ..Spec::default() }
}

pub(crate) fn log_path() -> PathBuf {
    Path::new(DIRECTORY).join("0.log")
}

/// Runs a shell's line to its end, and gives its exit code and what it has written.
pub(crate) fn shell(container: &Container, line: &str) -> (i32, String) {
    let (mut reader, output) = std::io::pipe().unwrap();
    let input = std::fs::File::open("/dev/null").unwrap();
    let streams = Streams::Given([input.into(), output.try_clone().unwrap().into(), output.into()]);
    let pid = container.spawn(&Process::new(["sh", "-c", line]), &streams).unwrap();
    drop(streams);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    (container.wait_process(pid, LONG).expect("it ends"), text)
}
