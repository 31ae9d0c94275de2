//! Why an adapter cannot be taken over.

use std::fmt;
use std::io;

use crate::netlink::NetlinkError;
use crate::nftables::NftError;

/// Why an adapter cannot be taken over, or not be followed.
#[derive(Debug)]
pub enum TakeoverError {
    /// There is no adapter of this name.
    NoAdapter(String),
    /// It is the loopback.
    Loopback(String),
    /// It has no Ethernet address, or is the vNIC itself.
    NoEthernet(String),
    /// It belongs to a bridge or a bond, of this number.
    PortOf(String, u32),
    /// It is down.
    Down(String),
    /// Another switch has it.
    Taken {
        /// The adapter's name.
        adapter: String,
        /// Who has it.
        by: String,
    },
    /// There is no link of the vNIC's number.
    NoVnic(u32),
    /// The kernel refused a change.
    Netlink(NetlinkError),
    /// The filter could not be made.
    Filter(NftError),
    /// A setting could not be made.
    Setting(io::Error),
}

impl fmt::Display for TakeoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAdapter(name) => write!(f, "there is no adapter {name}; name one that is there"),
            Self::Loopback(name) => write!(f, "{name} is the loopback and leads nowhere; name an Ethernet adapter"),
            Self::NoEthernet(name) => write!(f, "{name} is no Ethernet adapter; name one"),
            Self::PortOf(name, controller) => write!(f, "{name} is a port of link {controller}; take over that one"),
            Self::Down(name) => write!(f, "the adapter {name} is down; set it up first"),
            Self::Taken { adapter, by } => write!(f, "the adapter {adapter} is taken over by {by}; stop that first"),
            Self::NoVnic(index) => write!(f, "the host vNIC, link {index}, is gone"),
            Self::Netlink(error) => error.fmt(f),
            Self::Filter(error) => error.fmt(f),
            Self::Setting(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TakeoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Netlink(error) => Some(error),
            Self::Filter(error) => Some(error),
            Self::Setting(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NetlinkError> for TakeoverError {
    fn from(error: NetlinkError) -> Self {
        Self::Netlink(error)
    }
}
