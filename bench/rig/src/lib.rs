//! What benchmarks have in common: namespaces of their own, the processes in them, and figures as text.

#[cfg(target_os = "linux")]
pub mod cpu;
pub mod figure;
#[cfg(target_os = "linux")]
pub mod links;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod services;
pub mod table;
