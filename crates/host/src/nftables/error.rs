//! Why packets cannot be filtered or translated.

use std::fmt;
use std::io;

use nix::errno::Errno;

/// Why nf_tables did not do what it should.
#[derive(Debug)]
pub enum NftError {
    /// The kernel has no nf_tables, or lacks a part of it.
    Unsupported {
        /// What was tried.
        operation: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The caller may not.
    Forbidden {
        /// What was tried.
        operation: String,
    },
    /// Another process has a table of this name.
    Busy {
        /// The table's name.
        table: String,
    },
    /// Anything else.
    Io {
        /// What was tried.
        operation: String,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl NftError {
    pub(super) fn from_io(operation: &str, cause: io::Error) -> Self {
        let operation = operation.to_owned();
        match cause.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::ENOENT | Errno::EAFNOSUPPORT) => {
                Self::Unsupported { operation, cause }
            }
            Some(Errno::EPERM | Errno::EACCES) => Self::Forbidden { operation },
            _ => Self::Io { operation, cause },
        }
    }
}

impl fmt::Display for NftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { operation, cause } => write!(
                f,
                "could not {operation}: {cause}; it takes Linux 5.12 or later with nf_tables (modules nf_tables, nft_chain_nat, nft_fib_inet)"
            ),
            Self::Forbidden { operation } => {
                write!(f, "could not {operation}: not permitted; it takes CAP_NET_ADMIN in the network namespace: run as root")
            }
            Self::Busy { table } => write!(f, "another process owns the nf_tables table {table}; stop it first"),
            Self::Io { operation, cause } if cause.raw_os_error() == Some(libc::EMSGSIZE) => {
                write!(f, "could not {operation}: {cause}; it has too many rules for the send buffer: raise net.core.wmem_max")
            }
            Self::Io { operation, cause } => write!(f, "could not {operation}: {cause}"),
        }
    }
}

impl std::error::Error for NftError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unsupported { cause, .. } | Self::Io { cause, .. } => Some(cause),
            Self::Forbidden { .. } | Self::Busy { .. } => None,
        }
    }
}
