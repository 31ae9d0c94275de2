//! The server that a pod runs when its manifest has no command of its own, and the client to try servers with.
//!
//! It behaves as the `netexec` of agnhost, Kubernetes' test image, does: the same paths, the same answers, the same commands over
//! UDP, so that manifests made for that image run here. It tells besides who called it and by which address (`/who`), and
//! sends back what comes over TCP.
//!
//! There may be a thousand of these on a machine, so it is made of threads that wait: none is there for a connection that is
//! not, and each has a small stack.
//!
//! * [`server`]: the sockets. [`Settings`] says which.
//! * [`pages`]: what each path answers.
//! * [`http`]: reading requests and writing answers.
//! * [`dial`]: asking other servers.
//! * [`datagram`]: the commands over UDP.
//! * [`connect`], [`porter`], [`serve_hostname`]: more commands of the image; [`resolver`]: three more.
//! * [`duration`]: times as Go programs write them.

pub mod connect;
pub mod datagram;
pub mod dial;
pub mod duration;
pub mod http;
pub mod pages;
pub mod porter;
pub mod resolver;
pub mod serve_hostname;
pub mod server;
mod stack;

pub use server::{Server, Settings};

/// The name of the machine, or of the pod that takes it for one.
pub fn host_name() -> String {
    hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
