//! Our own server, for as long as the tests run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use std::{fs, thread};

use crate::program;

/// Longer than any start takes, even on a machine that is busy with other tests.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The same that the original is started with.
const SERVICE_RANGES: &str = "10.96.0.0/16,fd00:10:96::/112";

/// Ends the server when its input ends, which it does with the tests, however they end.
const KEEPER: &str = r#""$@" </dev/null & cat >/dev/null; kill $!; wait $!"#;

/// Keeps the keeper's input open.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);

/// Starts `transom api serve` in a directory of these tests and gives the kubeconfig it wrote.
pub(crate) fn start(tests: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(tests);
    // The state of an earlier run would be part of this one.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory can be made");
    let kubeconfig = directory.join("kubeconfig");
    let log = fs::File::create(directory.join("api.log")).expect("the log can be opened");
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "sh"]).arg(program::program()).args(["api", "serve", "--listen", "127.0.0.1:0"]);
    command.args(["--service-cidr", SERVICE_RANGES]);
    command.arg("--state-dir").arg(directory.join("state")).arg("--kubeconfig").arg(&kubeconfig);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn();
    let mut child = child.expect("a shell can be started");
    let output = child.stdout.take().expect("the server has an output");
    *RUNNING.lock().expect("nobody panics with the lock") = Some(child);
    let (sender, ready) = mpsc::channel();
    // Reads on after the line, so that the server never writes into a closed pipe.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.starts_with("ready") {
                let _ = sender.send(());
            }
        }
    });
    assert!(ready.recv_timeout(START_LIMIT).is_ok(), "our server did not become ready; see {}", directory.join("api.log").display());
    kubeconfig
}
