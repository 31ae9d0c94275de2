//! How a packet's journey ended, and why.

use std::fmt;

use wire::{Encapsulation, Malformed};

use crate::port::PortId;
use crate::rule::RuleId;

/// The end of a packet's journey through the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What became of it.
    pub outcome: Outcome,
    /// The rule that decided; [`crate::Switch::place`] tells its layer and group. None where no rule had a say.
    pub rule: RuleId,
    /// Which tier found it.
    pub tier: Tier,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was sent.
    Forwarded(Egress),
    /// It was sent to this many ports.
    Flooded(u32),
    /// The switch answered it itself.
    Answered,
    /// It was dropped.
    Dropped(DropReason),
}

/// Where a frame leaves the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// By this port.
    pub port: PortId,
    /// Wrapped so, if the port is a tunnel.
    pub encapsulation: Option<Encapsulation>,
}

/// How a verdict was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the unified flow table.
    Unified,
    /// By walking the layers for a known connection.
    Connection,
    /// By walking the layers.
    New,
}

impl Tier {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Connection => "connection",
            Self::New => "new",
        }
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $key:literal),+ $(,)?) => {
        /// Why a packet was dropped. The names are those that operators of such data planes know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl DropReason {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name of its counter.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)+ }
            }

            /// What it means, in a sentence.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

reasons! {
    /// A rule of an access list blocks it.
    AclBlock = "acl-block",
    /// The source is not an address of the NIC, or of the other node, that sent it.
    SpoofedSource = "spoofed-source",
    /// No rule says where it goes.
    NoRoute = "no-route",
    /// The hardware address of its next hop is not known yet.
    NoNeighbour = "no-neighbour",
    /// Its virtual network is not on this node.
    UnknownVni = "unknown-vni",
    /// It came by a tunnel, and not from a provider of its virtual network.
    UnknownProvider = "unknown-provider",
    /// It would pass for a packet of this node's tunnels.
    ForgedTunnel = "forged-tunnel",
    /// It says that its NIC is a router.
    RouterGuard = "router-guard",
    /// It gives out addresses as a DHCP server does.
    DhcpGuard = "dhcp-guard",
    /// It came from a tunnel and would have to go back into one.
    SplitHorizon = "split-horizon",
    /// It would leave by the port it came from.
    SamePort = "same-port",
    /// It is larger than the way it has to go, and must not be cut.
    PacketTooBig = "packet-too-big",
    /// A later fragment whose first one was not seen.
    FragmentWithoutFirst = "fragment-without-first",
    /// Its port has used up its share of the connection table.
    NoFlowResources = "no-flow-resources",
    /// Its port has used up its share of the ports for translation.
    NoNatPorts = "no-nat-ports",
    /// A rule refuses it, and its sender is told.
    Refused = "refused",
    /// The service has no backend.
    NoBackend = "no-backend",
    /// It goes to a group of receivers, and this network does not flood.
    GroupNotForwarded = "group-not-forwarded",
    /// It is neither IP nor a neighbour message, and this network forwards nothing else.
    NotIp = "not-ip",
    /// A protocol that the policy which applies to it cannot handle.
    UnsupportedProtocol = "unsupported-protocol",
    /// The port it goes to is gone.
    PortGone = "port-gone",
    /// Rules send it in a circle.
    RuleLoop = "rule-loop",
    /// The frame ends before its headers do.
    Truncated = "malformed-truncated",
    /// The IP version is not the one the frame announces.
    IpVersion = "malformed-ip-version",
    /// A header is shorter than its kind can be.
    HeaderLength = "malformed-header-length",
    /// The IP length does not fit the frame.
    IpLength = "malformed-ip-length",
    /// The checksum of the IPv4 header is wrong.
    IpChecksum = "malformed-ip-checksum",
    /// There are too many IPv6 extension headers.
    ExtensionHeaders = "malformed-extension-headers",
    /// The transport length does not fit the IP packet.
    TransportLength = "malformed-transport-length",
    /// The offload request does not fit the frame.
    Offload = "malformed-offload",
    /// The tunnel header is not valid.
    Tunnel = "malformed-tunnel",
    /// The source is an address that no sender can have.
    SourceAddress = "malformed-source-address",
    /// A later fragment reaches into the transport header of its first.
    Fragment = "malformed-fragment",
}

impl From<Malformed> for DropReason {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Truncated => Self::Truncated,
            Malformed::IpVersion => Self::IpVersion,
            Malformed::HeaderLength => Self::HeaderLength,
            Malformed::IpLength => Self::IpLength,
            Malformed::IpChecksum => Self::IpChecksum,
            Malformed::ExtensionHeaders => Self::ExtensionHeaders,
            Malformed::TransportLength => Self::TransportLength,
            Malformed::Segmentation => Self::Offload,
            Malformed::Tunnel => Self::Tunnel,
            Malformed::SourceAddress => Self::SourceAddress,
            Malformed::Fragment => Self::Fragment,
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl Verdict {
    /// A drop that no rule asked for.
    pub(crate) const fn drop(reason: DropReason) -> Self {
        Self { outcome: Outcome::Dropped(reason), rule: RuleId::NONE, tier: Tier::New }
    }

    /// Why it was dropped, if it was.
    pub const fn drop_reason(&self) -> Option<DropReason> {
        match self.outcome {
            Outcome::Dropped(reason) => Some(reason),
            _ => None,
        }
    }
}
