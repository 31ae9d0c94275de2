//! The server with real sockets: what fits, what does not, what others are asked for, and bytes that are no query.

mod forwarding;
mod garbage;
mod sizes;
mod trouble;
mod world;
