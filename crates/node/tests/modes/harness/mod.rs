//! What the tests are made of: a world of namespaces, daemons in it, documents, and probes with real sockets.
#![allow(dead_code, unused_imports, reason = "not every test target needs all of it")]

pub(crate) mod agent;
pub(crate) mod analyser;
pub(crate) mod api;
pub(crate) mod api_server;
pub(crate) mod balancer;
pub(crate) mod document;
pub(crate) mod fake_api;
#[path = "../../support/kubernetes.rs"]
mod kubernetes;
pub(crate) mod node;
pub(crate) mod ping;
pub(crate) mod place;
pub(crate) mod probe;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod sniff;
pub(crate) mod watch;
pub(crate) mod world;

use std::thread;
use std::time::{Duration, Instant};

pub(crate) use node::{Node, Pod};
pub(crate) use ping::{answers, pings};
pub(crate) use place::Place;
pub(crate) use probe::{exchange, refused, tcp, udp};
pub(crate) use sandbox::run;
pub(crate) use sniff::Sniffer;
pub(crate) use watch::Watch;
pub(crate) use world::World;

/// How long anything may take that is to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// How long is waited for something that is not to happen.
pub(crate) const MOMENT: Duration = Duration::from_millis(400);

/// How much is sent each way over TCP.
pub(crate) const MEGABYTES: usize = 8 << 20;

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
