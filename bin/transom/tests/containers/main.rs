//! Containers against a real kernel, each test twice: as whoever runs it, and as an ordinary user in a user namespace.
//!
//! It takes root, or a system that lets users make namespaces; elsewhere the tests say that they were skipped.

#![cfg(target_os = "linux")]

mod file_system;
mod processes;
mod sandbox;
mod systems;
