//! The plugins that make endpoints, on a service in memory: what they answer, what HNS has then, and what is left of it.
#![cfg(unix)]

mod atomic;
mod azure;
mod check;
mod dead_callers;
mod garbage;
mod machine;
mod nat;
mod objects;
mod status;
mod version_one;
