//! What can go wrong in vswitchd.

use std::fmt;
use std::io;

use hns::compile::CompileError;
use host::kernel_flows::KernelFlowsError;
use host::lock::LockError;
use host::netlink::NetlinkError;
use host::nftables::NftError;
use host::nic::NicError;
use host::socket::SocketError;
use host::uplink::TakeoverError;
use host::vnic::VnicError;
use vfp::SwitchError;

/// Why vswitchd could not do something.
#[derive(Debug)]
pub enum Error {
    /// Another one uses the same socket.
    Lock(LockError),
    /// The socket cannot be made.
    Socket(SocketError),
    /// The operating system refused something.
    Io(String, io::Error),
    /// A document cannot become rules.
    Compile(CompileError),
    /// The switch has no room, or not what is asked for.
    Switch(SwitchError),
    /// A NIC could not be made.
    Nic(NicError),
    /// A NIC could not be set up.
    Vnic(VnicError),
    /// The kernel's network settings could not be read or changed.
    Netlink(NetlinkError),
    /// The adapter could not be taken over.
    Takeover(TakeoverError),
    /// The node could not be made to translate.
    Translation(NftError),
    /// Flows could not be put into the kernel.
    KernelFlows(KernelFlowsError),
    /// A message cannot be understood.
    Message(String),
}

impl Error {
    /// The operating system refused something.
    pub(super) fn io(doing: impl Into<String>, error: io::Error) -> Self {
        Self::Io(doing.into(), error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(LockError::Held { path, holder }) => {
                write!(f, "{holder} uses {}; stop it first, or choose another --socket", path.with_extension("sock").display())
            }
            Self::Lock(error) => error.fmt(f),
            Self::Socket(error) => error.fmt(f),
            Self::Io(doing, error) => write!(f, "could not {doing}: {error}"),
            Self::Compile(error) => error.fmt(f),
            Self::Switch(error) => error.fmt(f),
            Self::Nic(error) => error.fmt(f),
            Self::Vnic(error) => error.fmt(f),
            Self::Netlink(error) => error.fmt(f),
            Self::Takeover(error) => error.fmt(f),
            Self::Translation(error) => error.fmt(f),
            Self::KernelFlows(error) => error.fmt(f),
            Self::Message(cause) => f.write_str(cause),
        }
    }
}

impl std::error::Error for Error {}

macro_rules! from {
    ($($source:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::$variant(error)
            }
        })+
    };
}

from! {
    CompileError => Compile,
    SwitchError => Switch,
    NicError => Nic,
    VnicError => Vnic,
    NetlinkError => Netlink,
    TakeoverError => Takeover,
    NftError => Translation,
    KernelFlowsError => KernelFlows,
}
