//! The engine, packet by packet.

#[path = "../common/frames.rs"]
mod frames;

mod affinity;
mod ageing;
mod bench;
mod bridge;
mod clash;
mod concurrency;
mod counters;
mod errors;
mod evasion;
mod fragments;
mod groups;
mod guards;
mod hairpin;
mod limits;
mod malformed;
mod masquerade;
mod mtu;
mod neighbours;
mod offload;
mod outside;
mod past;
mod providers;
mod refuse;
mod rules;
mod service;
mod stateful;
mod table;
mod translation;
mod tunnels;
mod vip;
