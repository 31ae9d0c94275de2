//! Chaos: Services, pods and backends come and go while HNS refuses, goes away and loses events, the proxy is restarted, and the cluster is
//! seen late. When it is over, HNS has what the cluster says, and nothing else of ours.
//!
//! A seed plays the same again: `TRANSOM_CHAOS_SEED=7 cargo test -p proxy --test proxier chaos`. `TRANSOM_CHAOS_SEEDS` says how many are played.

use std::collections::{BTreeMap, BTreeSet};
use std::env;

use hcn::{Guid, Hcn, Kind};
use serde_json::json;

use crate::random::Random;
use crate::world::{World, plain};

/// How many seeds are played where nobody says.
const SEEDS: u64 = 150;

/// How much happens under one seed.
const STEPS: usize = 40;

/// What the cluster and the node are like, in the plainest words.
#[derive(Default)]
struct Model {
    /// The backends of each Service: numbers of pods here, and of pods elsewhere.
    services: BTreeMap<usize, (BTreeSet<usize>, BTreeSet<usize>)>,
    /// The pods here, by number.
    pods: BTreeMap<usize, Guid>,
}

impl Model {
    /// What should be reached at the address of a Service, and at its node port.
    fn reached(&self, service: usize) -> Vec<String> {
        let (here, there) = &self.services[&service];
        let here = here.iter().filter(|pod| self.pods.contains_key(pod)).map(|pod| format!("10.1.1.{pod}"));
        let mut all: Vec<String> = here.chain(there.iter().map(|pod| format!("10.1.2.{pod}"))).collect();
        all.sort();
        all
    }
}

#[test]
fn whatever_happens_it_comes_to_what_the_cluster_says() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TRANSOM_CHAOS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRANSOM_CHAOS_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        // Said before it is played, so that a panic is beneath its seed.
        println!("TRANSOM_CHAOS_SEED={seed}");
        play(seed);
    }
}

fn play(seed: u64) {
    let mut random = Random::new(seed);
    let network_type = if seed.is_multiple_of(2) { "L2Bridge" } else { "Overlay" };
    let profile = ["transom", "ws2022", "ws2019"][random.below(3)];
    let mut world = World::new(profile, network_type);
    let mut model = Model::default();
    for _ in 0..STEPS {
        step(&mut random, &mut world, &mut model);
    }
    world.go_down(false);
    world.refuse(Kind::LoadBalancer, 0);
    world.refuse(Kind::Endpoint, 0);
    settle(&mut world);
    check(&world, &model, profile);
    world.nothing_to_do();
}

/// A sync that looks at everything, as one does every period.
fn settle(world: &mut World) {
    if let Err(obstacle) = world.try_sync() {
        panic!("{obstacle}");
    }
    world.proxier.compare(&world.hns).unwrap();
    world.sync();
}

fn step(random: &mut Random, world: &mut World, model: &mut Model) {
    match random.below(14) {
        0 | 1 => {
            let service = random.below(6);
            model.services.entry(service).or_default();
            let mut spec = plain(&format!("10.96.0.{}", 10 + service));
            spec["type"] = json!("NodePort");
            spec["ports"][0]["nodePort"] = json!(30_000 + service);
            world.service(&format!("s{service}"), spec);
        }
        2 => {
            let service = random.below(6);
            if model.services.remove(&service).is_some() {
                world.remove_service(&format!("s{service}"));
            }
        }
        3..=5 => {
            let service = random.below(6);
            let Some((here, there)) = model.services.get_mut(&service) else { return };
            *here = (20..24).filter(|_| random.below(2) == 0).collect();
            *there = (30..34).filter(|_| random.below(2) == 0).collect();
            let texts = here.iter().map(|pod| format!("!10.1.1.{pod}")).chain(there.iter().map(|pod| format!("10.1.2.{pod}")));
            let texts: Vec<String> = texts.collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            world.backends(&format!("s{service}"), "", 8080, &texts);
        }
        6 => {
            let pod = 20 + random.below(4);
            model.pods.entry(pod).or_insert_with(|| world.pod(&format!("10.1.1.{pod}")));
            world.proxier.forget();
        }
        7 => {
            let pod = 20 + random.below(4);
            if let Some(endpoint) = model.pods.remove(&pod) {
                world.behind_its_back(|hns| hns.delete(Kind::Endpoint, endpoint).unwrap());
            }
        }
        // Somebody deletes something of ours, and it is heard of or not.
        8 => {
            let all = world.balancers();
            if let Some(balancer) = all.get(random.below(8)) {
                let id = balancer.id;
                match random.below(2) {
                    0 => world.behind_its_back(|hns| hns.delete(Kind::LoadBalancer, id).unwrap()),
                    _ => world.quietly(|hns| hns.delete(Kind::LoadBalancer, id).unwrap()),
                }
            }
        }
        9 => world.restart(),
        10 => {
            world.go_down(random.below(2) == 0);
            world.proxier.forget();
        }
        11 => world.refuse(if random.below(2) == 0 { Kind::LoadBalancer } else { Kind::Endpoint }, random.below(4)),
        _ => _ = world.try_sync(),
    }
}

fn check(world: &World, model: &Model, profile: &str) {
    let mut wanted = BTreeSet::new();
    for service in model.services.keys() {
        let reached = model.reached(*service);
        for frontend in [format!("10.96.0.{}:80", 10 + service), format!(":{}", 30_000 + service)] {
            // Windows has no load balancer without backends.
            if reached.is_empty() && profile != "transom" {
                assert!(world.find(&frontend).is_none(), "{frontend}");
                continue;
            }
            assert_eq!(world.leads_to(&frontend), reached, "{frontend}");
            wanted.insert(world.balancer(&frontend).id);
        }
    }
    let all: BTreeSet<Guid> = world.balancers().iter().map(|balancer| balancer.id).collect();
    assert_eq!(all, wanted, "and no other");
    for pod in 30..34 {
        let is_used = model.services.values().any(|(_, there)| there.contains(&pod));
        assert_eq!(world.endpoints_at(&format!("10.1.2.{pod}")).len(), usize::from(is_used), "10.1.2.{pod}");
    }
}
