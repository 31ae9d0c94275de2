//! An acknowledged change survives `kill -9` at any instant, and half of one never does.
//!
//! Several clients do random things to a real hnsd, which is killed again and again. After every restart the service must
//! hold, for each client, exactly what it was told plus at most the one operation whose answer never came, whole or not at
//! all; and over all clients nothing may refer to what is not there, no two endpoints may have one address, and an endpoint
//! is in a namespace exactly if the namespace says so too.
//!
//! `TRANSOM_CRASH_ROUNDS` sets how often hnsd is killed, `TRANSOM_CRASH_SEED` what the clients do. What a seed cannot
//! repeat is the instant of the kill.
#![cfg(unix)]

mod choose;
mod client;
mod fake;
mod model;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/server.rs"]
mod server;
mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, thread};

use hcn::client::Address;
use hcn::{Hcn, Kind};

use client::{Client, Tally};
use fake::{Fake, Fault};
use random::Random;
use server::Home;
use world::World;

const CLIENTS: u64 = 6;

/// Few enough not to be noticed in a normal test run; CI plays more.
const ROUNDS: u64 = 12;

/// How long the clients work before the kill, at most.
const WORK_MAX_MS: usize = 250;

/// How often the very first start is cut off.
const FIRST_STARTS: usize = 8;

/// How soon a start is cut off that is not meant to succeed, at most.
const START_MAX_MS: usize = 40;

#[test]
fn acknowledged_changes_survive() {
    let rounds = number("TRANSOM_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("TRANSOM_CRASH_SEED").unwrap_or_else(seed_from_time);
    println!("crash test: {rounds} rounds of {CLIENTS} clients, seed {seed}");
    let directory = tempfile::tempdir().expect("a directory for the state");
    let home = Home::new(directory.path());
    let mut random = Random::new(seed);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|client| Client::new(client, random.fork())).collect();
    for round in 0..=rounds {
        if let Err(message) = play(&home, &mut clients, &mut random, round, rounds) {
            let kept = directory.keep();
            let log = home.last_words();
            panic!("seed {seed}, round {round} (state kept in {}):\n  {message}\nhnsd's log ends:\n{log}", kept.display());
        }
    }
    report(rounds, &clients);
}

/// One life of the service. The last one is only looked at.
fn play(home: &Home, clients: &mut [Client], random: &mut Random, round: u64, rounds: u64) -> Result<(), String> {
    // Making the first state and reading it back are themselves something that can be cut off.
    let cut_off = if round == 0 { FIRST_STARTS } else { usize::from(random.once_in(4)) };
    for _ in 0..cut_off {
        let server = home.spawn(&mut home.command());
        thread::sleep(milliseconds(random, START_MAX_MS));
        server.kill()?;
    }
    let (server, _) = home.start(&mut home.command())?;
    let service = hcn::client::Client::new(Address::Unix(home.socket()));
    if round == 0 {
        let network = choose::shared_network().to_string();
        service.create(Kind::Network, None, None, &network).map_err(|error| format!("the shared network: {error}"))?;
    }
    look(&service, clients)?;
    if round < rounds {
        work(home, server, clients, milliseconds(random, WORK_MAX_MS))?;
    }
    Ok(())
}

/// Compares everything with what the clients know.
fn look(service: &dyn Hcn, clients: &mut [Client]) -> Result<(), String> {
    let world = World::read(service)?;
    world.check(CLIENTS)?;
    clients.iter_mut().try_for_each(|client| client.settle(&world))
}

/// Lets the clients work, all at once, and kills the service under them.
fn work(home: &Home, server: server::Server, clients: &mut [Client], time: Duration) -> Result<(), String> {
    let killed = AtomicBool::new(false);
    thread::scope(|scope| {
        let start = |client: &'_ mut Client| {
            let service = hcn::client::Client::new(Address::Unix(home.socket()));
            client.work(&service, &killed)
        };
        let workers: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || start(client))).collect();
        thread::sleep(time);
        killed.store(true, Ordering::SeqCst);
        let ended = server.kill();
        let outcomes: Vec<Result<(), String>> =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a client panicked".to_owned()))).collect();
        // What the clients then say follows from it.
        ended.and_then(|()| outcomes.into_iter().collect())
    })
}

fn report(rounds: u64, clients: &[Client]) {
    let sum = |of: fn(&Tally) -> u64| clients.iter().map(|client| of(&client.tally)).sum::<u64>();
    let acknowledged = sum(|tally| tally.acknowledged);
    println!(
        "crash test: killed {rounds} times; {acknowledged} operations acknowledged and all there; of those in flight {} had happened and \
         {} had not; {} documents compared",
        sum(|tally| tally.kept),
        sum(|tally| tally.dropped),
        sum(|tally| tally.compared),
    );
    assert!(acknowledged >= rounds, "the clients hardly got anything done: {acknowledged} operations");
}

fn milliseconds(random: &mut Random, max: usize) -> Duration {
    Duration::from_millis(random.below(max) as u64)
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, and should be a number")))
}

fn seed_from_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() ^ u64::from(time.subsec_nanos()))
}

/// Plays against the fake: until it goes down, then a look, again and again.
fn play_fake(fault: Fault, rounds: u64) -> Result<Tally, String> {
    let mut random = Random::new(7);
    let fake = Fake::new(fault, random.fork());
    let killed = AtomicBool::new(true);
    let mut clients = [Client::new(0, random.fork())];
    while fake.create(Kind::Network, None, None, &choose::shared_network().to_string()).is_err() {
        fake.restart();
    }
    for _ in 0..rounds {
        clients[0].work(&fake, &killed)?;
        fake.restart();
        look(&fake, &mut clients)?;
    }
    Ok(clients[0].tally)
}

#[test]
fn an_honest_service_passes() {
    let tally = play_fake(Fault::None, 200).unwrap();
    assert!(tally.acknowledged > 1000 && tally.kept > 10 && tally.dropped > 10 && tally.compared > 1000, "{tally:?}");
}

#[test]
fn a_lost_change_is_found() {
    let error = play_fake(Fault::Forget, 20).unwrap_err();
    assert!(error.contains("acknowledged and found differ"), "{error}");
}

#[test]
fn half_a_change_is_found() {
    let error = play_fake(Fault::Half, 200).unwrap_err();
    assert!(
        error.contains("and the endpoint does not") || error.contains("and the namespace does not") || error.contains("not there"),
        "{error}"
    );
}

#[test]
fn an_altered_document_is_found() {
    let error = play_fake(Fault::Alter, 20).unwrap_err();
    assert!(error.contains("somebody else"), "{error}");
}
