//! Many calls at once, of which some die and some lose HNS under them. After every round nothing is there that should not be.
//!
//! `TRANSOM_STORM_SEED` sets who dies and when, `TRANSOM_STORM_PODS` how many pods there are. What a seed cannot repeat is how far a
//! process comes in a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::audit::{Audit, Live};
use crate::fleet::{self, NAMESPACES, Pod, addresses, expect_to_try_again};
use crate::harness::node::Daemon;
use crate::harness::sandbox::NOTE;
use crate::harness::{Node, World, pings, run};
use crate::plugin::{Outcome, Plugin};
use crate::random::Random;
use crate::{alone, number};

/// As many as fit on a node.
const PODS: u64 = 150;

/// How often HNS is killed in a round, how long it lives before, and how long it stays dead, at most.
const DEATHS: usize = 3;
const LIFE_MS: usize = 1500;
const DEATH_MS: usize = 200;

#[test]
fn a_storm_of_calls_leaves_nothing() {
    let _turn = alone();
    run("storm::a_storm_of_calls_leaves_nothing", || {
        let seed = number("TRANSOM_STORM_SEED").unwrap_or_else(seed_from_time);
        let count = number("TRANSOM_STORM_PODS").unwrap_or(PODS);
        println!("{NOTE}storm of {count} pods, seed {seed}");
        let mut world = World::new(1);
        let plugins = fleet::plugins(&world);
        let hnsd = world.nodes[0].hnsd.take().expect("hnsd runs");
        let node = world.one();
        let audit = Audit::new(node, &plugins);
        let pods = fleet::pods(node, &plugins, usize::try_from(count).expect("a number of pods"));
        let mut storm = Storm { node, plugins: &plugins, pods: &pods, audit, random: Random::new(seed) };
        let typical = storm.calm();
        storm.kill_plugins(typical);
        let _hnsd = storm.kill_service(hnsd);
        storm.abandon(typical);
    });
}

fn seed_from_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

/// The pods and who makes their lives hard.
struct Storm<'a> {
    node: &'a Node,
    plugins: &'a [Plugin],
    pods: &'a [Pod<'a>],
    audit: Audit<'a>,
    random: Random,
}

impl<'a> Storm<'a> {
    /// All at once, and nobody dies. Gives how long a call takes in such a crowd.
    fn calm(&mut self) -> Duration {
        let (live, typical) = timed("ADD", || self.all(|pod, _| pod.add()));
        self.audit.expect(self.pods, &live);
        self.neighbours_meet(&live);
        timed("DEL", || self.all(|pod, _| pod.del()));
        self.audit.expect(self.pods, &Live::new());
        typical
    }

    /// Plugins are killed at any instant. An ADD takes up whatever those before it left, and so does DEL.
    fn kill_plugins(&mut self, typical: Duration) {
        let (live, _) = timed("ADD and DEL with plugins killed", || {
            self.all(|pod, random| {
                (0..=random.below(2)).for_each(|_| kill(pod, random, typical));
                pod.add()
            })
        });
        self.audit.expect_soon(self.pods, &live);
        self.neighbours_meet(&live);
        timed("DEL with plugins killed", || {
            self.all(|pod, random| {
                (0..random.below(2)).for_each(|_| _ = pod.start("DEL").kill_after(instant(random, typical)));
                pod.del();
            })
        });
        self.audit.expect_soon(self.pods, &Live::new());
    }

    /// HNS is killed some times, and comes back with all it knew. Gives the last one.
    fn kill_service(&mut self, hnsd: Daemon) -> Daemon {
        let (live, hnsd) = self.while_killing(hnsd, |storm| storm.all(add_in_the_end));
        self.audit.expect_soon(self.pods, &live);
        self.neighbours_meet(&live);
        let (_, hnsd) = self.while_killing(hnsd, |storm| storm.all(|pod, _| pod.del_in_the_end()));
        self.audit.expect_soon(self.pods, &Live::new());
        hnsd
    }

    /// Half of the pods are forgotten at any stage of an ADD, with or without their namespaces. GC finds them.
    fn abandon(&mut self, typical: Duration) {
        let kept = |pod: &Pod<'_>| pod.id.ends_with(['0', '2', '4', '6', '8']);
        let (results, _) = timed("ADD of which half are forgotten", || {
            self.all(|pod, random| match kept(pod) {
                true => pod.add(),
                false => {
                    _ = pod.start("ADD").kill_after(instant(random, typical));
                    if random.once_in(2) {
                        host::namespace::delete(&Path::new(NAMESPACES).join(&pod.id)).expect("the namespace goes");
                    }
                    Value::Null
                }
            })
        });
        let live: Live<'_> = results.into_iter().filter(|(_, result)| !result.is_null()).collect();
        let valid: Vec<Value> = live.keys().map(|id| json!({ "containerID": id, "ifname": "eth0" })).collect();
        for plugin in self.plugins {
            let mut config = plugin.config.clone();
            config["cni.dev/valid-attachments"] = json!(valid);
            let outcome = plugin.start_with(self.node, "GC", "", &config).finish();
            assert!(matches!(outcome, Outcome::Success(_)), "GC: {outcome:?}");
        }
        self.audit.expect_soon(self.pods, &live);
        self.all(|pod, _| pod.del());
        self.audit.expect(self.pods, &Live::new());
    }

    /// Does something with all pods at once, each with chances of its own.
    fn all<T: Send>(&mut self, task: impl Fn(&Pod<'_>, &mut Random) -> T + Sync) -> BTreeMap<&'a str, T> {
        let task = &task;
        thread::scope(|scope| {
            let start = |pod: &'a Pod<'a>, mut random: Random| (pod.id.as_str(), scope.spawn(move || task(pod, &mut random)));
            let started: Vec<_> = self.pods.iter().map(|pod| start(pod, self.random.fork())).collect();
            started.into_iter().map(|(id, thread)| (id, thread.join().unwrap_or_else(|_| panic!("{id} is lost")))).collect()
        })
    }

    /// Kills the service and starts it again, some times while something happens.
    fn while_killing<T>(&mut self, mut hnsd: Daemon, task: impl FnOnce(&mut Self) -> T) -> (T, Daemon) {
        let (node, mut random, over) = (self.node, self.random.fork(), AtomicBool::new(false));
        thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let mut deaths = 0;
                while deaths < DEATHS && !over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(random.below(LIFE_MS) as u64));
                    hnsd.kill();
                    thread::sleep(Duration::from_millis(random.below(DEATH_MS) as u64));
                    hnsd = node.new_hnsd(&[]);
                    deaths += 1;
                }
                (hnsd, deaths)
            });
            let start = Instant::now();
            let done = {
                let _end = End(&over);
                task(self)
            };
            let (hnsd, deaths) = killer.join().expect("the killer lives");
            println!("{NOTE}hnsd killed {deaths} times in {:.1} s", start.elapsed().as_secs_f64());
            (done, hnsd)
        })
    }

    /// The first pod of each network reaches the last one.
    fn neighbours_meet(&self, live: &Live<'_>) {
        for plugin in self.plugins {
            let mut pods = self.pods.iter().filter(|pod| pod.plugin.network() == plugin.network());
            if let (Some(first), Some(last)) = (pods.next(), pods.next_back()) {
                addresses(&live[last.id.as_str()]).into_iter().for_each(|address| pings(&first.place, address));
            }
        }
    }
}

/// Says that something is over, also if it ends with a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An instant in the life of a call, or after its end.
fn instant(random: &mut Random, typical: Duration) -> Duration {
    Duration::from_micros(random.below(typical.as_micros() as usize * 3 / 2) as u64)
}

/// A call that is killed, unless it is faster.
fn kill(pod: &Pod<'_>, random: &mut Random, typical: Duration) {
    let command = if random.once_in(3) { "DEL" } else { "ADD" };
    let outcome = pod.start(command).kill_after(instant(random, typical));
    assert!(!matches!(outcome, Outcome::Failure(_)), "{command} {}: {outcome:?}", pod.endpoint());
}

/// ADD as runtimes do it: until it succeeds, with or without DEL before the next attempt.
fn add_in_the_end(pod: &Pod<'_>, random: &mut Random) -> Value {
    for _ in 0..fleet::ATTEMPTS {
        match pod.call("ADD") {
            Outcome::Success(result) => return result,
            Outcome::Failure(error) => expect_to_try_again(&error),
            Outcome::Killed => panic!("nobody kills this one"),
        }
        if random.once_in(2) {
            pod.del_in_the_end();
        }
    }
    panic!("ADD {} never succeeds", pod.endpoint());
}

/// Says how long something took for all pods, which is also how long a call takes in the crowd.
fn timed<T>(what: &str, task: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = task();
    println!("{NOTE}{what}: {:.1} s", start.elapsed().as_secs_f64());
    (done, start.elapsed())
}
