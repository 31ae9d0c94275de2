//! What a client sees of a Kubernetes API server.
//!
//! The same tests run against ours and against the original: with TRANSOM_KUBECONFIG set, against the server it names; without, against
//! a `transom api serve` that lives as long as the tests. Every value that is expected here was first seen in an answer of the original
//! (`cargo xtask interop kubernetes`). Where ours answers otherwise on purpose, [`differences`] says so and why.

mod basics;
mod concurrency;
mod discovery;
mod harness;
mod lists;
mod patches;
mod watches;
