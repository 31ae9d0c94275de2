//! The engine, packet by packet.

#[path = "../common/frames.rs"]
mod frames;

mod ageing;
mod bench;
mod bridge;
mod concurrency;
mod counters;
mod errors;
mod fragments;
mod groups;
mod limits;
mod malformed;
mod mtu;
mod neighbours;
mod outside;
mod rules;
mod stateful;
mod translation;
mod tunnels;
