//! What is on the wire, with no opinion about it.
//!
//! A frame arrives in a [`Frame`], is read once by [`Headers::parse`], and is from then on known by offsets and a
//! [`FlowId`]. Nothing here does I/O or reads a clock.
//!
//! **No panic.** Every function that reads bytes checks their length first and answers [`Malformed`] for what does not
//! fit. Offsets in a [`Headers`] hold for the very bytes they were read from, and stop holding when the frame's length changes.

mod address;
pub mod arp;
pub mod checksum;
mod compose;
mod embedded;
pub mod fragment;
mod frame;
pub mod geneve;
mod headers;
pub mod icmp;
mod mac;
pub mod merge;
pub mod neighbour;
pub mod number;
mod offload;
pub mod outer;
pub mod pcapng;
mod print;
mod reset;
pub mod segment;
pub mod stt;
mod tunnel;
pub mod virtio;
pub mod vxlan;

pub use address::Ip;
pub use embedded::Embedded;
pub use frame::{FRAME_MAX, Frame, HEADROOM};
pub use headers::{FlowId, Fragment, Headers, Kind, Malformed};
pub use mac::{MacAddress, ParseMacError};
pub use offload::{Checksum, Offload, Segmentation, SegmentationKind};
pub use print::Printed;
pub use reset::tcp_reset;
pub use tunnel::{Encapsulation, TunnelKind};
