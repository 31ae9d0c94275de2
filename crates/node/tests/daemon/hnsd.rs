//! An hnsd of its own for each test, with a directory that goes with it.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use hcn::client::{Address, Client};
use hcn::{Guid, Hcn, Kind};
use serde_json::Value;
use tempfile::TempDir;

use crate::documents;
use crate::request::{Answer, Request};
use crate::server::{Home, Server};

/// Longer than anything takes, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory in which one hnsd after the other may live.
#[derive(Debug)]
pub(crate) struct Place {
    directory: TempDir,
    pub(crate) home: Home,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the state");
        let home = Home::new(directory.path());
        Self { directory, home }
    }

    /// A path inside the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file with the state.
    pub(crate) fn journal(&self) -> PathBuf {
        self.path("state/hns.journal")
    }

    /// How hnsd is started here, with more options.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = self.home.command();
        command.args(options);
        command
    }

    /// Starts an hnsd with more options, and waits until it is ready.
    pub(crate) fn start(&self, options: &[&str]) -> Hnsd {
        self.start_as(&mut self.command(options))
    }

    /// Starts an hnsd of one's own wording, and waits until it is ready.
    pub(crate) fn start_as(&self, command: &mut Command) -> Hnsd {
        let (server, greeting) = self.home.start(command).unwrap_or_else(|message| panic!("{message}"));
        Hnsd { server, greeting, socket: self.home.socket(), port_file: self.path("port") }
    }

    /// Starts an hnsd that must refuse to. Returns its exit code and what it said.
    pub(crate) fn refuses(&self, command: &mut Command) -> (i32, String) {
        let said_before = fs::read(self.path("hnsd.log")).map_or(0, |log| log.len());
        let mut server = self.home.spawn(command);
        let status = wait(&mut server).expect("hnsd ends by itself");
        let log = fs::read(self.path("hnsd.log")).expect("the log can be read");
        (status.code().unwrap_or(-1), String::from_utf8_lossy(&log[said_before..]).into_owned())
    }
}

/// A running hnsd. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Hnsd {
    server: Server,
    /// The line it said that it was ready with.
    pub(crate) greeting: String,
    pub(crate) socket: PathBuf,
    port_file: PathBuf,
}

impl Hnsd {
    /// Starts an hnsd in a new place.
    pub(crate) fn new() -> (Place, Self) {
        let place = Place::new();
        let hnsd = place.start(&[]);
        (place, hnsd)
    }

    /// Starts an hnsd in a new place, and makes the network.
    pub(crate) fn with_network() -> (Place, Self) {
        let (place, hnsd) = Self::new();
        hnsd.create(Kind::Network, &documents::network());
        (place, hnsd)
    }

    pub(crate) fn process(&self) -> u32 {
        self.server.child.id()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Address::Unix(self.socket.clone()))
    }

    /// Makes an object, which must work.
    #[track_caller]
    pub(crate) fn create(&self, kind: Kind, document: &Value) -> Guid {
        self.client().create(kind, None, None, &document.to_string()).unwrap_or_else(|error| panic!("{error}: {document}"))
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("hnsd takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit is fine");
        stream
    }

    /// Connects to the loopback port.
    pub(crate) fn connect_tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).expect("hnsd takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit is fine");
        stream
    }

    /// The loopback port, as hnsd has written it down.
    pub(crate) fn port(&self) -> u16 {
        let text = fs::read_to_string(&self.port_file).expect("the port file is there");
        text.trim().parse().expect("the port file holds a number")
    }

    /// Asks for something on a connection of its own.
    pub(crate) fn ask(&self, request: &Request) -> Answer {
        request.over(self.connect())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&Request::new("GET", path))
    }

    /// Everything that a change would change.
    pub(crate) fn everything(&self) -> String {
        let paths = ["metrics", "networks?documents=true", "endpoints?documents=true", "namespaces", "loadbalancers", "portreservations"];
        paths.map(|path| self.get(&format!("/v2/{path}")).ok().body).join("\n")
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(mut self, signal: &str) -> ExitStatus {
        self.signal(signal);
        wait(&mut self.server).expect("hnsd stops on a signal")
    }

    pub(crate) fn signal(&self, signal: &str) {
        let process = self.process().to_string();
        let status = Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal, &process]).status();
        assert!(status.expect("there is a shell").success(), "SIG{signal} cannot be sent");
    }

    /// `kill -9`.
    pub(crate) fn kill(self) {
        self.server.kill().expect("hnsd runs until it is killed");
    }

    /// Whether hnsd still does what it is there for.
    #[track_caller]
    pub(crate) fn assert_works(&self) {
        let id = self.create(Kind::Namespace, &documents::namespace());
        self.client().delete(Kind::Namespace, id).expect("what was made can be deleted");
    }
}

fn wait(server: &mut Server) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = server.child.try_wait().expect("hnsd can be waited for") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}
