//! hnsd as its users meet it: a process of its own, real sockets, and everything that can be wrong with them.
#![cfg(unix)]

mod calls;
mod concurrent;
mod disk;
mod documents;
mod events;
mod hnsd;
mod input;
mod instances;
mod life;
mod loopback;
mod request;
#[path = "../support/server.rs"]
mod server;
mod state;
