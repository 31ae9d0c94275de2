//! How many changes a second several clients get acknowledged, together.

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use hcn::client::{Address, Client};
use hcn::{Hcn, Kind};

use crate::cost::median;
use crate::documents::{self, create};
use crate::service::Service;

/// Clients that work at the same time.
const CLIENTS: usize = 8;

/// Endpoints that each of them makes.
const EACH: usize = 2000;

/// How often it is measured, each time in a fresh service.
const RUNS: usize = 5;

/// Durable creates per second.
#[derive(Debug)]
pub(crate) struct Rates {
    pub(crate) threads: f64,
    pub(crate) processes: f64,
}

/// Measures threads and processes in turn.
pub(crate) fn measure(transom: &Path) -> Result<Rates, String> {
    let (mut threads, mut processes) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        println!("eight clients, run {} of {RUNS}", run + 1);
        threads.push(with_threads(&fresh(transom)?)?);
        processes.push(with_processes(&fresh(transom)?)?);
    }
    Ok(Rates { threads: median(&threads), processes: median(&processes) })
}

fn fresh(transom: &Path) -> Result<Service, String> {
    let service = Service::start(transom)?;
    create(&service.client(), Kind::Network, &documents::network())?;
    Ok(service)
}

/// What one client does.
fn work(client: &dyn Hcn, number: usize) -> Result<(), String> {
    (0..EACH).try_for_each(|step| create(client, Kind::Endpoint, &documents::endpoint(number * EACH + step)).map(drop))
}

/// The rate, once it is certain that everything is there.
fn rate(service: &Service, start: Instant) -> Result<f64, String> {
    let seconds = start.elapsed().as_secs_f64();
    let there = service.client().enumerate(Kind::Endpoint, &documents::everything()).map_err(|error| error.to_string())?.len();
    match there == CLIENTS * EACH {
        true => Ok(there as f64 / seconds),
        false => Err(format!("{} endpoints were made, and {there} are there", CLIENTS * EACH)),
    }
}

fn with_threads(service: &Service) -> Result<f64, String> {
    let barrier = Barrier::new(CLIENTS + 1);
    let run = |number: usize| {
        let client = service.client();
        barrier.wait();
        work(&client, number)
    };
    let start = thread::scope(|scope| {
        let run = &run;
        let workers: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || run(number))).collect();
        barrier.wait();
        let start = Instant::now();
        let done = workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a client panicked".into())));
        done.map(|()| start)
    })?;
    rate(service, start)
}

fn with_processes(service: &Service) -> Result<f64, String> {
    let mut workers = (0..CLIENTS).map(|number| spawn(service, number)).collect::<Result<Vec<Child>, String>>()?;
    workers.iter_mut().try_for_each(wait_until_ready)?;
    let start = Instant::now();
    for worker in &mut workers {
        // Closing its input is the signal.
        drop(worker.stdin.take());
    }
    for mut worker in workers {
        let status = worker.wait().map_err(|error| format!("cannot wait for a client: {error}"))?;
        if !status.success() {
            return Err(format!("a client process failed: {status}"));
        }
    }
    rate(service, start)
}

fn spawn(service: &Service, number: usize) -> Result<Child, String> {
    let cannot = |error: std::io::Error| format!("cannot start a client process: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg("--worker").arg(service.socket()).arg("--number").arg(number.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)
}

fn wait_until_ready(worker: &mut Child) -> Result<(), String> {
    let output = worker.stdout.as_mut().ok_or("a client process has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).map_err(|error| format!("cannot read from a client process: {error}"))?;
    if line.trim() == "ready" { Ok(()) } else { Err(format!("a client process says {line:?} instead of ready")) }
}

/// The life of a client process: say that it is ready, wait until the input ends, work.
pub(crate) fn be_worker(socket: &Path, number: usize) -> Result<(), String> {
    let client = Client::new(Address::Unix(socket.to_owned()));
    let mut output = stdout();
    output.write_all(b"ready\n").and_then(|()| output.flush()).map_err(|error| error.to_string())?;
    stdin().lines().for_each(drop);
    work(&client, number)
}
