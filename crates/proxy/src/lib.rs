//! kube-proxy: from Services and EndpointSlices to load balancers of HNS, or to rules of the kernel.
//!
//! Nothing here remembers what it did. Every sync computes what should be, looks at what HNS has, and makes the difference go
//! away, so that it makes no difference who changed what: the cluster, somebody at HNS, or a proxy before this one.
//!
//! ```text
//! Services ──► service ┐
//! EndpointSlices ► backend ┴► selection ──► desired ┐
//! HNS ─────────────────────────────► observed ──────┴► plan ──► apply ──► HNS
//!                                          (desired) ──► kernel ─────────► rules
//! ```
//!
//! * [`service`], [`backend`]: what the cluster says, read once, per address family.
//! * [`selection`]: which backends serve whom, by the rules that every Service proxy owes its users.
//! * [`desired`]: the load balancers and endpoints that should be.
//! * [`identity`]: how our objects are told from those of others.
//! * [`observed`]: the network, endpoints and load balancers that HNS has.
//! * [`plan`]: the difference, as steps; [`apply`]: doing them.
//! * [`kernel`]: the same for a node whose networking is the kernel's.
//! * [`proxier`]: one sync after the other; [`programming`]: how long changes wait for one.

pub mod apply;
pub mod backend;
pub mod cluster;
pub mod config;
pub mod desired;
pub mod family;
pub mod identity;
pub mod kernel;
pub mod observed;
pub mod plan;
pub mod programming;
pub mod proxier;
pub mod selection;
pub mod service;
pub mod shape;
