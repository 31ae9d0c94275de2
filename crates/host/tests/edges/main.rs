//! The edges against a real kernel: every test has a network of its own, made of namespaces, that is gone afterwards.
//!
//! It takes root, or a system that lets users make namespaces; elsewhere the tests say that they were skipped.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod bridge;
mod cable;
mod ingress;
mod kernel_flows;
mod monitor;
mod namespaces;
mod ping;
mod sandbox;
mod services;
mod takeover;
mod translation;
mod vnic;
