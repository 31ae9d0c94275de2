//! The second half of a rule: what happens to a packet.

use std::sync::Arc;

use wire::{Encapsulation, Ip, MacAddress};

use crate::domain::DomainId;
use crate::nat::PoolId;
use crate::port::PortId;
use crate::service::Service;
use crate::underlay::UnderlayId;
use crate::verdict::DropReason;

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The packet has passed this layer.
    Allow,
    /// The packet is dropped, for this reason.
    Block(DropReason),
    /// The next group of this layer decides.
    Pass,
    /// Counts, and otherwise is as if it were not there: rules of lower precedence in this group decide.
    Count,
    /// Headers are changed, and the packet has passed this layer.
    Modify {
        /// A new source address of the frame.
        source_mac: Option<MacAddress>,
        /// A new destination address of the frame.
        destination_mac: Option<MacAddress>,
        /// A new source address.
        source: Option<Ip>,
        /// A new destination address.
        destination: Option<Ip>,
        /// A new source port.
        source_port: Option<u16>,
        /// A new destination port.
        destination_port: Option<u16>,
    },
    /// The source becomes an address and port of a pool; the packet leaves by the underlay.
    SourceNat {
        /// From where the port is taken.
        pool: PoolId,
        /// The new source address.
        address: Ip,
        /// The underlay that routes the packet afterwards.
        underlay: UnderlayId,
        /// How many ports the sender may have towards one destination, however many are free.
        most: Option<u16>,
    },
    /// Sent to one of the backends of a service, the same for all packets of a connection.
    Redirect(Arc<Service>),
    /// Refused at once: the sender is told, by a reset if it speaks TCP, else by an error.
    Refuse,
    /// Sent to a port, as it is or with new frame addresses.
    Forward {
        /// Where to.
        port: PortId,
        /// A new source address of the frame.
        source_mac: Option<MacAddress>,
        /// A new destination address of the frame.
        destination_mac: Option<MacAddress>,
    },
    /// Wrapped and sent into a tunnel.
    Push {
        /// The port of the tunnel.
        port: PortId,
        /// The outer headers.
        encapsulation: Encapsulation,
        /// A new source address of the inner frame.
        source_mac: Option<MacAddress>,
        /// A new destination address of the inner frame.
        destination_mac: Option<MacAddress>,
    },
    /// Unwrapped; from here on the rules of this domain forward it.
    Pop {
        /// The domain of the virtual network.
        domain: DomainId,
    },
    /// Sent to the next hop of an underlay.
    Route(UnderlayId),
    /// A neighbour request is answered with this address.
    Answer(MacAddress),
    /// Sent to every other port of the domain.
    Flood,
}

impl Action {
    /// Its name, for people.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block(_) => "block",
            Self::Pass => "pass",
            Self::Count => "count",
            Self::Modify { .. } => "modify",
            Self::SourceNat { .. } => "source-nat",
            Self::Redirect(_) => "redirect",
            Self::Refuse => "refuse",
            Self::Forward { .. } => "forward",
            Self::Push { .. } => "push",
            Self::Pop { .. } => "pop",
            Self::Route(_) => "route",
            Self::Answer(_) => "answer",
            Self::Flood => "flood",
        }
    }
}
