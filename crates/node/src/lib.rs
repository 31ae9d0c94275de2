//! Assembles a node: services, sockets, clocks and tasks. The only maker of threads and listeners; no logic.

pub mod api;
pub mod fabric;
pub mod hnsd;
pub mod kube_proxy;
mod owner_only;
pub mod vswitchd;
