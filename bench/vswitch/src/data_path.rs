//! How our switch moves packets of pods, which decides what is expected of it.

use clap::ValueEnum;

/// What `transom vswitchd --data-path` is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataPath {
    /// By vswitchd, with TAP devices and UDP sockets.
    #[default]
    Tap,
    /// Known flows by the kernel, with a flow table in eBPF.
    Bpf,
}

impl DataPath {
    /// Its name as an option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Bpf => "bpf",
        }
    }

    /// The name that its results are kept under.
    pub(crate) fn results(self) -> &'static str {
        match self {
            Self::Tap => "vswitch",
            Self::Bpf => "vswitch-bpf",
        }
    }

    /// The command that measures it.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Tap => "cargo xtask bench vswitch",
            Self::Bpf => "cargo xtask bench vswitch --data-path bpf",
        }
    }

    /// What it is, in a few words.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Tap => "the portable path (TAP and UDP sockets)",
            Self::Bpf => "the kernel's path (known flows by eBPF, the rest by vswitchd)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_names_agree() {
        for path in [DataPath::Tap, DataPath::Bpf] {
            assert_eq!(DataPath::from_str(path.name(), false), Ok(path));
        }
        assert!(DataPath::from_str("auto", false).is_err());
    }

    #[test]
    fn no_path_overwrites_the_results_of_the_other() {
        assert_ne!(DataPath::Tap.results(), DataPath::Bpf.results());
    }
}
