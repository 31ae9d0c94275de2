//! Names: what the cluster calls its Services and pods, a server that answers, and how clients in pods ask.
//!
//! ```text
//! Services, EndpointSlices ──► facts ──► zone ──┐
//!                                              ▼
//! client ─► rules ─► queries ─► server ─► responder ─► answer
//!                                              └─► forwarder ─► servers outside
//! ```
//!
//! * [`facts`]: what names need of a Service, an EndpointSlice and a pod, and nothing else.
//! * [`zone`]: a value made of them that answers by the Kubernetes DNS specification.
//! * [`server`]: UDP and TCP around it; [`forward`]: who is asked for all other names.
//! * [`client`]: in which order clients on Windows and on Linux ask for a name, and asking so.
//! * [`message`]: queries and answers as bytes, and what fits where.

pub mod client;
pub mod facts;
pub mod forward;
pub mod message;
pub mod server;
pub mod zone;

pub use hickory_proto::op::ResponseCode;
pub use hickory_proto::rr::{Name, RData, Record, RecordType};
