//! Containers as the Host Compute Service (HCS) makes them.
//!
//! A compute system is made from a document, started, given processes, shut down and deleted, with the states and the
//! failures that programs for Windows know. Its network is a namespace of HNS, which a CNI plugin has filled.
//!
//! * [`compute_system`], [`process`], [`properties`]: the documents, in schema version 2.
//! * [`state`]: what may be done when.
//! * [`error`]: every failure, with its code.
//! * [`service`]: the operations, on systems that a [`runtime`] makes.
//! * [`runtime`]: the edge as a trait; `runtime::linux` has the real one, of Linux namespaces.
//! * [`network`]: what a container knows of its network.
//! * [`registry`]: where it is told: a hive for each container, under the keys that Windows uses.
//! * [`resolv_conf`]: the same for programs that read files.
//! * [`command_line`]: one line of a Windows command as its arguments.

pub mod command_line;
pub mod compute_system;
pub mod error;
pub mod network;
pub mod process;
pub mod properties;
pub mod registry;
pub mod resolv_conf;
pub mod runtime;
pub mod service;
pub mod state;

pub use compute_system::ComputeSystem;
pub use error::{Error, Result};
pub use process::ProcessParameters;
pub use service::Service;
pub use state::State;
