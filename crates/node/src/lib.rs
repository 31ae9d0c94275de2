//! Assembles a node: services, sockets, clocks and tasks. The only maker of threads and listeners; no logic.

#[cfg(unix)]
pub mod api;
pub mod dns;
#[cfg(unix)]
pub mod fabric;
#[cfg(any(target_os = "linux", windows))]
pub mod flanneld;
#[cfg(unix)]
pub mod hnsd;
#[cfg(any(target_os = "linux", windows))]
pub mod kube_proxy;
pub mod manager;
#[cfg(unix)]
mod owner_only;
#[cfg(unix)]
pub mod vswitchd;
