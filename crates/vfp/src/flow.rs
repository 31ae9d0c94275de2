//! What is remembered about packets that belong together.

pub(crate) mod affinity;
pub(crate) mod connection;
pub(crate) mod entry;
pub(crate) mod expiry;
pub(crate) mod key;
pub(crate) mod table;
