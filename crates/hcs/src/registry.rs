//! The registry of a container: keys with typed values, in memory.
//!
//! * [`hive`]: keys and values. Names are compared without regard to case, and keep the case they were given.
//! * [`tcpip`]: a hive that tells a container of its network, under the keys that Windows uses.
//! * [`changes`]: what a document changes in it.
//! * [`query`]: a hive printed as `reg query /s` prints it.
//! * [`mod@file`]: a hive as a `.reg` file, and back.

pub mod changes;
pub mod file;
pub mod hive;
pub mod query;
pub mod tcpip;

pub use hive::{Hive, Key, Value};
