//! Where our server answers otherwise than the original on purpose.
//!
//! A test asks [`ours`] with the name of a row, and may then expect something else of our server. Nothing else tells the servers apart.

use super::server::server;

/// A difference: its name, and why it is there.
const TABLE: &[(&str, &str)] = &[
    ("apply", "server-side apply needs to know who owns every field; kubectl applies without it"),
    ("managed fields", "they are for server-side apply"),
    ("more ranges for services", "one machine has one range of each family, and whoever starts the server says which"),
    ("protobuf", "clients that prefer it take JSON as well"),
];

/// Whether the server is ours, for a difference that is listed.
pub(crate) fn ours(difference: &str) -> bool {
    assert!(TABLE.iter().any(|(name, _)| *name == difference), "{difference} is not in the table of differences");
    !server().is_original()
}
