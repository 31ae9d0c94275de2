//! flanneld end to end: an API server, nodes that are network namespaces, and real packets between pods.
//!
//! It takes what `modes` takes; elsewhere the tests say that they were skipped.
#![cfg(target_os = "linux")]

mod agent;
mod cluster;
mod cni;
#[path = "../modes/harness/mod.rs"]
mod harness;
mod hns;
mod kernel_services;
mod mixed;
mod options;
#[path = "../support/program.rs"]
mod program;
mod services;
mod trouble;
