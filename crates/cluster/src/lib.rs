//! The Kubernetes API for one machine.
//!
//! On a cluster the API is kube-apiserver with etcd, and it stays so. For a lab, a test or a laptop [`server`] is an API server
//! small enough to be started by whoever needs one, for the kinds that networking needs. Clients use it as the original.

pub mod server;
