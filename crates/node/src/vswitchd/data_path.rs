//! How packets of pods are moved.

use std::fmt;

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

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tap => "tap",
            Self::Bpf => "bpf",
            Self::Auto => "auto",
        })
    }
}
