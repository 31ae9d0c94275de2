//! The proxier on an HNS in memory: what it makes of a cluster, and what it does about everything else that happens.

mod behind_its_back;
mod chaos;
mod failures;
#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../../../node/tests/support/random.rs"]
mod random;
mod services;
mod world;
