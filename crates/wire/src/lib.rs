//! What is on the wire, with no opinion about it.
//!
//! Today this is the Ethernet address; headers follow with the switch.

mod mac;

pub use mac::{MacAddress, ParseMacError};
