//! NICs against the real kernel, each test in network namespaces of its own. Where these are not allowed, a test says so
//! and passes.
#![cfg(target_os = "linux")]

mod cable;
mod fault;
mod memory;
mod packet;
mod packet_socket;
mod space;
mod stream;
mod tap;
mod udp_tunnel;
