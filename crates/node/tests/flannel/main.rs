//! flanneld end to end: the embedded API, nodes that are network namespaces, and real packets between pods.
//!
//! It takes what `modes` takes; elsewhere the tests say that they were skipped.
#![cfg(target_os = "linux")]

mod agent;
mod cluster;
mod cni;
mod fake_api;
#[path = "../modes/harness/mod.rs"]
mod harness;
mod hns;
mod mixed;
#[path = "../support/program.rs"]
mod program;
mod services;
mod trouble;
