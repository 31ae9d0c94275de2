//! The edges of the operating system: what a service has to ask it for, one question a module.
//!
//! On Windows this is where Microsoft's own HNS is reached, behind the same trait as ours.

#[cfg(unix)]
pub mod adapter;
pub mod clock;
#[cfg(target_os = "linux")]
pub mod container;
#[cfg(any(unix, windows))]
pub mod interface;
#[cfg(target_os = "linux")]
pub mod kernel_flows;
#[cfg(unix)]
pub mod lock;
#[cfg(target_os = "linux")]
pub mod memory;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod nftables;
#[cfg(target_os = "linux")]
pub mod nic;
#[cfg(unix)]
pub mod port;
#[cfg(target_os = "linux")]
pub mod priority;
#[cfg(any(unix, windows))]
pub mod process_tree;
#[cfg(unix)]
pub mod resolver;
#[cfg(any(unix, windows))]
pub mod same_file;
#[cfg(unix)]
pub mod socket;
#[cfg(target_os = "linux")]
pub mod sysctl;
#[cfg(unix)]
pub mod termination;
#[cfg(target_os = "linux")]
pub mod uplink;
#[cfg(target_os = "linux")]
pub mod vnic;
#[cfg(windows)]
pub mod windows;
