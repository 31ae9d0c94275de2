//! What a client sees of a Kubernetes API server.
//!
//! The same tests run against ours and against the original: with TRANSOM_KUBECONFIG set, against the server it names; without, against
//! a `transom api serve` that lives as long as the tests. Every value that is expected here was first seen in an answer of the original
//! (`cargo xtask interop kubernetes`). Where ours answers otherwise on purpose, [`differences`] says so and why.

mod access;
mod allocation;
mod basics;
mod concurrency;
mod defaults;
mod deletes;
mod different;
mod discovery;
mod dry_run;
mod endpoints;
mod harness;
mod input;
mod lists;
mod namespaces;
#[path = "../support/own.rs"]
mod own;
mod patches;
#[path = "../../../node/tests/support/program.rs"]
mod program;
mod progress;
mod ranges;
mod subresources;
mod tables;
mod topology;
mod validation;
mod watches;
mod workloads;
