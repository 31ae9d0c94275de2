//! The Kubernetes API, from both sides.
//!
//! Agents [`connect`](connect::connect) to an API server, whoever's it is, and keep [mirrors](mirror::Mirror) of what they act on. On a cluster
//! that server is kube-apiserver with etcd, and it stays so. For a lab, a test or a laptop [`server`] is one small enough to be
//! started by whoever needs one, for the kinds that networking needs. Clients use it as the original.

pub mod connect;
pub mod mirror;
#[cfg(unix)]
pub mod server;
