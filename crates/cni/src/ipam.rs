//! The plugins that give out addresses.

pub mod host_local;
