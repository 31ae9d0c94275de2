//! How packets of pods are moved.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How packets of pods are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataPath {
    /// By this process: NICs are TAP devices. Works everywhere.
    Tap,
    /// Known flows by the kernel: NICs are pairs of links with programs of ours.
    Bpf,
    /// By the kernel where that is possible.
    #[default]
    Auto,
}

impl DataPath {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tap, Self::Bpf, Self::Auto];
}

/// How packets are moved, and if by this process alone, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DataPathReport {
    /// `tap` or `bpf`.
    pub data_path: String,
    /// Why known flows do not go by the kernel, if they were to where that is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl DataPathReport {
    pub(super) fn new(path: DataPath, why: Option<String>) -> Self {
        Self { data_path: path.to_string(), why }
    }
}

impl fmt::Display for DataPathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.data_path.as_str(), &self.why) {
            ("bpf", _) => f.write_str("known flows go by the kernel"),
            (_, None) => f.write_str("all packets go by this process"),
            (_, Some(why)) => write!(f, "all packets go by this process: {why}"),
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tap => "tap",
            Self::Bpf => "bpf",
            Self::Auto => "auto",
        })
    }
}
