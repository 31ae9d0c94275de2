//! What was acknowledged survives `kill -9` at any instant, versions never go back, and who watches misses nothing.
//!
//! Several writers change objects of their own on a real server, which is killed again and again, while watchers follow and resume where
//! they were. After every start each writer finds exactly what it was told, plus at most the one change whose answer never came, whole or not
//! at all. In the end every watcher has seen every acknowledged change once, in order.
//!
//! `TRANSOM_CRASH_ROUNDS` sets how often the server is killed, `TRANSOM_CRASH_SEED` what the writers do. What a seed cannot repeat is the
//! instant of the kill.

#[path = "../../../node/tests/support/program.rs"]
mod program;
// Shared with the crash test of hnsd, which asks more of it.
#[allow(dead_code)]
#[path = "../../../node/tests/support/random.rs"]
mod random;
#[allow(dead_code)]
#[path = "../support/server.rs"]
mod server;
mod watcher;
mod writer;

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use random::Random;
use server::Home;
use watcher::Watcher;
use writer::Writer;

const WRITERS: u64 = 6;
const WATCHERS: usize = 3;

/// Few enough not to be noticed in a normal test run.
const ROUNDS: u64 = 12;

/// How long the writers work before the kill, at most.
const WORK_MAX_MS: u64 = 250;

/// How long watchers may take to see the end.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn nothing_is_lost_and_nobody_misses_anything() {
    let rounds = number("TRANSOM_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("TRANSOM_CRASH_SEED").unwrap_or_else(seed_from_time);
    println!("crash test: {rounds} rounds of {WRITERS} writers and {WATCHERS} watchers, seed {seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime can be made");
    let directory = tempfile::tempdir().expect("a directory for the state");
    let home = Home::new(directory.path());
    let outcome = runtime.block_on(play(&home, rounds, seed));
    if let Err(message) = outcome {
        panic!("seed {seed}: {message}\nthe server's log ends:\n{}", home.last_words());
    }
}

async fn play(home: &Home, rounds: u64, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|writer| Writer::new(writer, random.fork())).collect();
    let mut watchers: Vec<Watcher> = Vec::new();
    for round in 0..rounds {
        let server = home.start().await.map_err(|error| format!("round {round}: {error}"))?;
        let client = home.client().await?;
        if watchers.is_empty() {
            watchers.extend((0..WATCHERS).map(|_| Watcher::start(home)));
        }
        let kill = async {
            tokio::time::sleep(Duration::from_millis(random.next() % WORK_MAX_MS)).await;
            server.kill()
        };
        let mut working: Vec<_> = writers.iter_mut().map(|writer| Box::pin(writer.live(&client))).collect();
        let (killed, lives) = tokio::join!(kill, all(&mut working));
        killed?;
        lives.map_err(|error| format!("round {round}: {error}"))?;
    }
    finish(home, &mut writers, watchers).await
}

/// Looks once more, and hears what the watchers have seen.
async fn finish(home: &Home, writers: &mut [Writer], watchers: Vec<Watcher>) -> Result<(), String> {
    let server = home.start().await?;
    let client = home.client().await?;
    for writer in writers.iter_mut() {
        writer.settle(&client).await?;
    }
    let acknowledged: Vec<u64> = writers.iter().flat_map(|writer| writer.acknowledged.iter().copied()).collect();
    let last = acknowledged.iter().copied().max().unwrap_or_default();
    println!("{} changes were acknowledged, the last one as {last}", acknowledged.len());
    if acknowledged.is_empty() {
        return Err("nothing was acknowledged, so nothing was tried".to_owned());
    }
    for (number, watcher) in watchers.into_iter().enumerate() {
        let seen = watcher.finish(last, PATIENCE).await.map_err(|error| format!("watcher {number}: {error}"))?;
        seen.check(&acknowledged).map_err(|error| format!("watcher {number}: {error}"))?;
        seen.compare(&home.list(&client).await?).map_err(|error| format!("watcher {number}: {error}"))?;
    }
    server.kill()
}

/// Lives until all are over; the first that found something wrong is the outcome.
async fn all(lives: &mut [std::pin::Pin<Box<impl Future<Output = Result<(), String>>>>]) -> Result<(), String> {
    let mut outcome = Ok(());
    for ended in futures_util::future::join_all(lives.iter_mut()).await {
        outcome = outcome.and(ended);
    }
    outcome
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

fn seed_from_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64)
}
