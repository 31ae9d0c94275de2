//! Every network mode end to end: real daemons on nodes that are network namespaces, real sockets in pods, and an underlay between them.
//!
//! Each test has a world of its own, in a process of its own, and nothing outside of it notices. It takes root or a system that lets users
//! make namespaces, `/dev/net/tun`, and the command `ip`; elsewhere the tests say that they were skipped.
#![cfg(target_os = "linux")]

mod acl;
mod chaos;
mod cni;
mod cni_azure;
mod cnitool;
mod compared;
mod container_proxy;
mod dsr;
mod existing_namespace;
#[path = "../../../vfp/tests/common/frames.rs"]
mod frames;
mod harness;
mod hostile;
mod kernel_flows;
mod kube_proxy;
mod l2bridge;
mod l2tunnel;
mod linux;
mod nat;
mod overlay;
mod policies;
mod port_mapping;
mod profiles;
#[path = "../support/program.rs"]
mod program;
mod proxy;
mod qos;
#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../support/random.rs"]
mod random;
mod refusals;
mod reprogramming;
mod restart;
mod service_limits;
mod service_troubles;
mod services;
mod together;
mod transparent;
mod vlan;
