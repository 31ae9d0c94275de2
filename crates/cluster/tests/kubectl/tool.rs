//! Starting kubectl.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::own;

/// Longer than anything takes, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// kubectl, in a Kubernetes namespace of its own.
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
}

/// kubectl in a new namespace; none, and a word about it, if there is no kubectl.
pub(crate) fn kubectl(namespace: &str) -> Option<Kubectl> {
    static KUBECONFIG: OnceLock<PathBuf> = OnceLock::new();
    let Some(program) = env::var_os("TRANSOM_KUBECTL").map(PathBuf::from) else {
        println!("skipped: TRANSOM_KUBECTL names no kubectl");
        return None;
    };
    let kubeconfig = KUBECONFIG.get_or_init(|| own::start("kubectl")).clone();
    let kubectl = Kubectl { program, kubeconfig, namespace: namespace.to_owned() };
    kubectl.ok(&["create", "namespace", namespace]);
    Some(kubectl)
}

impl Kubectl {
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["--namespace", &self.namespace]).args(arguments);
        // Its cache is this server's.
        command.env("KUBECACHEDIR", self.kubeconfig.with_extension("cache")).stdin(Stdio::null());
        command
    }

    fn run(&self, command: &mut Command) -> Output {
        command.output().unwrap_or_else(|error| panic!("cannot start {}: {error}", self.program.display()))
    }

    /// What it prints. It must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, self.run(&mut self.command(arguments)))
    }

    /// What it complains about. It must fail.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(&mut self.command(arguments));
        assert!(!output.status.success(), "{arguments:?} succeeded: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// What it prints when it applies a text.
    #[track_caller]
    pub(crate) fn apply(&self, document: &str) -> String {
        succeeded(&["apply"], self.feed(document))
    }

    /// What it complains about when it applies a text.
    #[track_caller]
    pub(crate) fn refuses(&self, document: &str) -> String {
        let output = self.feed(document);
        assert!(!output.status.success(), "it was applied: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn feed(&self, document: &str) -> Output {
        let mut command = self.command(&["apply", "-f", "-"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("kubectl can be started");
        let mut input = child.stdin.take().expect("it has an input");
        input.write_all(document.as_bytes()).expect("it reads");
        drop(input);
        child.wait_with_output().expect("it ends")
    }

    /// Has an editor change what it shows.
    #[track_caller]
    pub(crate) fn edit(&self, editor: &str, arguments: &[&str]) {
        succeeded(arguments, self.run(self.command(arguments).env("KUBE_EDITOR", editor)));
    }

    /// Starts it, to go on meanwhile.
    pub(crate) fn start(&self, arguments: &[&str]) -> Started {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().expect("kubectl can be started");
        let output = child.stdout.take().expect("it has an output");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        // What it is about to do has begun when it has asked the server, which nobody outside can see.
        thread::sleep(Duration::from_millis(500));
        Started { child, lines }
    }
}

/// One that runs.
pub(crate) struct Started {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Started {
    /// Waits for a line.
    #[track_caller]
    pub(crate) fn says(&mut self, line: &str, patience: Duration) {
        let deadline = Instant::now() + patience;
        while let Ok(said) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if said == line {
                return;
            }
        }
        panic!("it never said {line:?}");
    }

    /// Waits for its end, which must be a good one.
    #[track_caller]
    pub(crate) fn ends_well(mut self) {
        eventually("the end of kubectl", || self.child.try_wait().expect("it can be waited for").is_some());
        let status = self.child.wait().expect("it has ended");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never came: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn succeeded(arguments: &[&str], output: Output) -> String {
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
