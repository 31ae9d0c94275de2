//! The plugins that give out addresses.

pub mod azure_vnet;
pub mod host_local;
