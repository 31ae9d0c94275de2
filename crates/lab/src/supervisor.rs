//! The process that makes a lab and keeps it: it listens to what is wanted, and everything ends with it.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OnceCell, mpsc, watch};

use crate::check::Row;
use crate::control::{Reply, Request, line, parse};
use crate::daemon::LOGS;
use crate::existing::Existing;
use crate::home::Home;
use crate::isolation;
use crate::lab::{Failure, Lab, Outside};

/// How long is waited for whoever started the lab to say what it is to be. Who was killed before that does not want it any more.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);

/// How long a request may be: a file of manifests.
const LONGEST_REQUEST: u64 = 64 << 20;

/// Runs as the supervisor, until the lab is to end.
pub fn run(home: &Home) -> Result<(), String> {
    let explained = |doing: &'static str| move |error: io::Error| format!("could not {doing}: {error}");
    let Some(_lock) = home.lock().map_err(explained("take the lab's lock"))? else { return Err("the lab runs already".to_owned()) };
    // After this the machine's /run is not seen any more, and what is in it is reached by what was opened before.
    let api: OwnedFd = io::stdin().as_fd().try_clone_to_owned().map_err(explained("take over the API's port"))?;
    let directory = File::open(home.directory()).map_err(explained("open the lab's directory"))?;
    let control = UnixListener::bind(home.socket()).map_err(explained("make the lab's socket"))?;
    isolation::own_file_systems().map_err(|error| error.to_string())?;
    std::fs::create_dir_all(LOGS).map_err(explained("make a directory for logs"))?;
    let outside = Outside {
        name: home.name().to_owned(),
        directory: PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())),
        api: TcpListener::from(api),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(explained("start the runtime"))?;
    runtime.block_on(serve(control, outside)).map_err(explained("listen"))
}

struct Supervisor {
    outside: Outside,
    lab: OnceCell<Arc<Lab>>,
    /// Whether somebody has asked for the lab to be made.
    is_wanted: AtomicBool,
    stop: watch::Sender<bool>,
}

async fn serve(control: UnixListener, outside: Outside) -> io::Result<()> {
    control.set_nonblocking(true)?;
    let control = tokio::net::UnixListener::from_std(control)?;
    let (stop, mut stopped) = watch::channel(false);
    let supervisor = Arc::new(Supervisor { outside, lab: OnceCell::new(), is_wanted: AtomicBool::new(false), stop });
    let is_wanted = || supervisor.is_wanted.load(Ordering::Relaxed);
    let mut forgotten = std::pin::pin!(tokio::time::sleep(FIRST_PATIENCE));
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    loop {
        tokio::select! {
            connection = control.accept() => {
                let (stream, _) = connection?;
                tokio::spawn(supervisor.clone().converse(stream));
            }
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
            _ = terminated.recv() => return Ok(()),
            // Who asked may have come after this began to be waited for.
            () = &mut forgotten, if !is_wanted() => if !is_wanted() { return Ok(()) },
        }
    }
}

impl Supervisor {
    async fn converse(self: Arc<Self>, stream: UnixStream) {
        let (input, output) = stream.into_split();
        let mut input = BufReader::new(tokio::io::AsyncReadExt::take(input, LONGEST_REQUEST));
        let mut text = String::new();
        if input.read_line(&mut text).await.is_err() {
            return;
        }
        let mut teller = Teller(output);
        match parse(&text) {
            Ok(request) => self.answer(request, input.into_inner().into_inner(), &mut teller).await,
            Err(error) => teller.tell(&failed(format!("the request is not understood: {error}; use a client of the same version"))).await,
        }
    }

    async fn answer(&self, request: Request, input: OwnedReadHalf, teller: &mut Teller) {
        match request {
            Request::Up { text, existing } => self.up(&text, existing.as_deref(), input, teller).await,
            Request::Down => {
                teller.tell(&Reply::Done).await;
                self.stop.send_replace(true);
            }
            other => {
                let reply = match self.lab.get() {
                    Some(lab) => ask(lab, other, teller).await,
                    None => Err(Failure::new("the lab is not up yet; wait until `transom lab up` is done")),
                };
                teller.tell(&reply.unwrap_or_else(|Failure { cause, log }| Reply::Failed { cause, log })).await;
            }
        }
    }

    /// Makes the lab. If that fails, or nobody waits for it any more, all of it goes.
    async fn up(&self, text: &str, existing: Option<&Existing>, mut input: OwnedReadHalf, teller: &mut Teller) {
        self.is_wanted.store(true, Ordering::Relaxed);
        let (progress, mut steps) = mpsc::unbounded_channel();
        let make = self.lab.get_or_try_init(|| Lab::up(text, existing, &self.outside, progress));
        let mut make = std::pin::pin!(make);
        let mut byte = [0_u8; 1];
        let outcome = loop {
            tokio::select! {
                biased;
                Some(step) = steps.recv() => teller.tell(&step).await,
                outcome = &mut make => break outcome.map(drop),
                // Nothing more comes from whoever asked but the end.
                _ = tokio::io::AsyncReadExt::read(&mut input, &mut byte) => break Err(Failure::new("nobody waits for it any more")),
            }
        };
        while let Ok(step) = steps.try_recv() {
            teller.tell(&step).await;
        }
        let is_failed = outcome.is_err();
        conclude(outcome, teller).await;
        if is_failed {
            self.stop.send_replace(true);
        }
    }
}

/// Asks a lab that is up.
async fn ask(lab: &Arc<Lab>, request: Request, teller: &mut Teller) -> Result<Reply, Failure> {
    match request {
        Request::Apply { text } => lab.apply(&text).await.map(|()| Reply::Done),
        Request::Status => lab.status().await.map(|status| Reply::Status(Box::new(status))),
        Request::Flows { sample } => crate::flows::run(lab, sample).await.map(|outcomes| Reply::Flows { outcomes }),
        Request::Check { only } => check(lab, only.as_deref(), teller).await.map(|rows| Reply::Check { rows }),
        Request::Registry { node, id, export, key } => registry(lab, &node, &id, export, &key).map(|text| Reply::Text { text }),
        Request::Up { .. } | Request::Down => Ok(Reply::Done),
    }
}

/// Tries what the documents say, and tells what is being tried.
async fn check(lab: &Arc<Lab>, only: Option<&str>, teller: &mut Teller) -> Result<Vec<Row>, Failure> {
    let (progress, mut steps) = mpsc::unbounded_channel();
    let mut work = std::pin::pin!(crate::check::run(lab, only, progress));
    loop {
        tokio::select! {
            biased;
            Some(step) = steps.recv() => teller.tell(&step).await,
            outcome = &mut work => return outcome,
        }
    }
}

fn registry(lab: &Lab, node: &str, id: &str, export: bool, key: &str) -> Result<String, Failure> {
    let node = lab.node(node).ok_or_else(|| Failure::new(format!("there is no node {node:?}")))?;
    let hive = node.registry(id).map_err(Failure::new)?;
    match export {
        true => Ok(hcs::registry::file::export(&hive)),
        false => Ok(hcs::registry::query::print(&hive, key)),
    }
}

fn failed(cause: String) -> Reply {
    Reply::Failed { cause, log: Vec::new() }
}

async fn conclude(outcome: Result<(), Failure>, teller: &mut Teller) {
    let reply = match outcome {
        Ok(()) => Reply::Done,
        Err(Failure { cause, log }) => Reply::Failed { cause, log },
    };
    teller.tell(&reply).await;
}

/// Tells whoever asked.
struct Teller(OwnedWriteHalf);

impl Teller {
    async fn tell(&mut self, reply: &Reply) {
        // Who has gone does not want to know.
        _ = self.0.write_all(line(reply).as_bytes()).await;
    }
}
