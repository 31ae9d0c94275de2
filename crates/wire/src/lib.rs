//! What is on the wire, with no opinion about it.
//!
//! A frame arrives in a [`Frame`], is read once by [`Headers::parse`], and is from then on known by offsets and a
//! [`FlowId`]. Nothing here does I/O or reads a clock.
//!
//! **No panic.** Every function that reads bytes checks their length first and answers [`Malformed`] for what does not
//! fit. Offsets in a [`Headers`] hold for the very bytes they were read from, and stop holding when the frame's length changes.

mod address;
pub mod checksum;
mod frame;
mod headers;
mod mac;
pub mod number;
mod offload;
mod tunnel;
pub mod virtio;

pub use address::Ip;
pub use frame::{FRAME_MAX, Frame, HEADROOM};
pub use headers::{FlowId, Fragment, Headers, Kind, Malformed};
pub use mac::{MacAddress, ParseMacError};
pub use offload::{Checksum, Offload, Segmentation, SegmentationKind};
pub use tunnel::{Encapsulation, TunnelKind};
