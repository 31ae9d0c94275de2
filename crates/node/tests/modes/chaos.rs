//! Chaos with real processes: Services, EndpointSlices and pods come and go, load balancers are deleted and changed behind kube-proxy's back, and
//! the API server, hnsd and kube-proxy are killed and started. When it is over, everybody reaches what the API says, HNS has nothing else
//! of ours, and no connection through a Service that nothing was done to was lost on the way.
//!
//! A seed plays the same again: `TRANSOM_CHAOS_SEED=7 cargo test -p node --test modes chaos`. `TRANSOM_CHAOS_SEEDS` says how many are played.
//! What a seed cannot repeat is who is how fast.

mod held;
mod script;
mod stage;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::harness::balancer::{comes_to, is_refused};
use crate::harness::sandbox::run_with;
use crate::harness::{Place, eventually};
use crate::random::Random;
use script::{Backends, Model, Step};
use stage::{Mode, Stage};

/// How many seeds are played where nobody says; CI plays more.
const SEEDS: u64 = 3;

/// How many are played at once: most of the time they wait.
const AT_ONCE: usize = 3;

/// The seed to play, which a process for one seed is told.
const SEED: &str = "TRANSOM_CHAOS_SEED";

#[test]
fn whatever_happens_it_comes_to_what_the_api_says() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRANSOM_CHAOS_SEEDS").unwrap_or(SEEDS),
    };
    let next = AtomicU64::new(seeds.start);
    let player = || {
        let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|seed| *seed < seeds.end);
        taken.filter(|seed| catch_unwind(|| in_a_world(*seed)).is_err()).collect::<Vec<u64>>()
    };
    let failed: Vec<u64> = thread::scope(|scope| {
        let players: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(player)).collect();
        players.into_iter().flat_map(|player| player.join().expect("failures are caught")).collect()
    });
    let commands: Vec<String> = failed.into_iter().map(command).collect();
    assert!(commands.is_empty(), "it did not come to that; to play again:\n{}", commands.join("\n"));
}

/// What plays a seed again.
fn command(seed: u64) -> String {
    format!("{SEED}={seed} cargo test -p node --test modes chaos")
}

/// Plays a seed in a world of its own.
fn in_a_world(seed: u64) {
    run_with("chaos::whatever_happens_it_comes_to_what_the_api_says", &[(SEED, seed.to_string())], || {
        // Said before it is played, so that a panic is beneath its seed.
        println!("{}", command(seed));
        play(seed);
    });
}

fn play(seed: u64) {
    let mut random = Random::new(seed);
    let mode = if seed.is_multiple_of(2) { Mode::Bridge } else { Mode::Overlay { dsr: random.below(2) == 0 } };
    let (steps, model) = script::write(&mut random);
    let begin = Instant::now();
    let mut stage = Stage::new(mode);
    println!("{mode:?}, made after {:?}", begin.elapsed());
    for step in steps {
        println!("{:?}: {step:?}", begin.elapsed());
        stage.play(&step);
        stage.exchange();
    }
    check(&stage, &model);
    // Whatever it has been through, it still follows.
    model.services.iter().for_each(|service| stage.play(&Step::EmptyBalancers(*service)));
    check(&stage, &model);
    stage.exchange();
    println!("over after {:?}", begin.elapsed());
}

/// Waits until everything is as the API says.
fn check(stage: &Stage, model: &Model) {
    let reached: BTreeMap<usize, Backends> = model.services.iter().map(|service| (*service, model.reached(*service))).collect();
    let wanted: Vec<String> = stage.wanted_frontends().into_iter().collect();
    eventually(&format!("HNS has load balancers at {wanted:?}"), || stage.frontends() == wanted);
    for (service, backends) in &reached {
        let (inside, outside) = stage.fronts(*service);
        inside.into_iter().for_each(|front| meets(stage, &stage.client, front, backends));
        outside.into_iter().for_each(|front| meets(stage, &stage.world.outside, front, backends));
    }
    let endpoints = stage.wanted_endpoints(&reached);
    eventually(&format!("HNS has endpoints of kube-proxy for {endpoints:?}"), || stage.endpoints() == endpoints);
    assert_eq!(stage.frontends(), wanted, "and it stays so");
}

fn meets(stage: &Stage, from: &Place, front: SocketAddr, backends: &Backends) {
    let names = stage.names(backends);
    match names.is_empty() {
        true => is_refused(from, front),
        false => comes_to(from, front, &names),
    }
}
