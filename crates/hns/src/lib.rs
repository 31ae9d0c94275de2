//! The Host Networking Service.
//!
//! A call becomes an [`operation`] on a draft of the state: it is validated, the document is completed (addresses,
//! defaults), and the draft with its indexes becomes the next state once the [`journal`] has it on disk.
//! Readers always see a whole, durable state and never wait for a writer; a failed operation leaves no trace because
//! its draft is dropped.
//!
//! ```text
//!   caller ─► service ─► operation ─► draft ──► journal (one fsync for a batch) ─► published state ─► caller
//!                        validate     indexes                                    └► switch, events
//! ```
//!
//! Nothing in here touches the machine: adapters, ports in use and the time come in through [`machine::Machine`], and what
//! documents ask of the network goes out through [`switch::Switch`].

pub mod build;
pub mod compile;
pub mod events;
pub mod journal;
pub mod machine;
pub mod reservation;
pub mod service;
pub mod switch;

mod call;
mod filter;
mod fingerprint;
mod operation;
mod pool;
mod record;
mod state;
mod table;
mod validate;
mod view;
mod writer;

pub use build::Build;
pub use hcn::profile;
pub use service::{Options, Service};
