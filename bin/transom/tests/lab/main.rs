//! Labs, as the command makes them: each test has one of its own, in a directory of its own.
//!
//! It takes root, or a system that lets users make namespaces; elsewhere the tests say that they were skipped.

#![cfg(target_os = "linux")]

mod check;
mod running;
