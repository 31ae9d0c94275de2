//! The engine, packet by packet.

mod bench;
mod bridge;
