//! The second half of a rule: what happens to a packet.

use std::sync::Arc;

use wire::{Encapsulation, Ip, MacAddress};

use crate::domain::DomainId;
use crate::nat::PoolId;
use crate::port::PortId;
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
    /// The destination becomes that of one of the backends, the same for all packets of a connection.
    Redirect(Arc<Backends>),
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
            Self::Forward { .. } => "forward",
            Self::Push { .. } => "push",
            Self::Pop { .. } => "pop",
            Self::Route(_) => "route",
            Self::Answer(_) => "answer",
            Self::Flood => "flood",
        }
    }
}

/// Where a redirected connection may end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    /// The candidates.
    pub list: Vec<Backend>,
}

/// One place where a redirected connection may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// Its address.
    pub address: Ip,
    /// Its transport port.
    pub port: u16,
}

impl Backends {
    /// The backend of a connection: that with the highest score for it (rendezvous hashing), so that a change of one backend
    /// moves only the connections that had it.
    pub fn select(&self, connection: u64) -> Option<Backend> {
        let score = |backend: &Backend| {
            let words = [backend.address.0 as u64, (backend.address.0 >> 64) as u64, u64::from(backend.port)];
            words.iter().fold(connection, |hash, word| crate::flow::key::mix(hash ^ word))
        };
        self.list.iter().copied().max_by_key(score)
    }
}
