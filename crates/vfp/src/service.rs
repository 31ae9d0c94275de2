//! A service: one address that stands for many backends.
//!
//! Which backend a connection gets is decided by rendezvous: each backend has a score for the connection, and the highest wins. So a
//! backend that goes moves only the connections that had it, and one that comes takes only those it wins.
//!
//! To keep this cheap, connections fall into slots, and the score is that of the slot. With few backends the winner of a slot is found
//! when it is asked for; with many, the winners of all slots are found once.

use std::time::Duration;

use smallvec::SmallVec;
use wire::{FlowId, Ip};

use crate::domain::DomainId;
use crate::flow::key::mix;
use crate::nat::PoolId;
use crate::underlay::UnderlayId;

/// What a redirecting rule needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Where its connections may end.
    pub backends: Backends,
    /// What of a connection decides about its backend.
    pub distribution: Distribution,
    /// How long a client keeps its backend after it was last used. Without, the distribution alone decides.
    pub affinity: Option<Duration>,
    /// Whether packets reach the backend with their destination unchanged.
    pub keep_destination: bool,
    /// What the source becomes.
    pub masquerade: Option<Masquerade>,
    /// The domain that forwards its packets, as if one of its NICs had sent them. Without, that of the port by which they came.
    pub domain: Option<DomainId>,
    /// The underlay that routes its packets, as the node would: who asks the node sends frames to it, which say nothing of the way to a
    /// backend elsewhere.
    pub underlay: Option<UnderlayId>,
}

/// What of a connection decides about its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Both addresses, both ports and the protocol.
    #[default]
    FiveTuple,
    /// Both addresses and the protocol.
    ThreeTuple,
    /// Both addresses.
    TwoTuple,
}

impl Distribution {
    /// The number by which a connection chooses. The service's own address is always in it, so that one client does not meet the
    /// same backend in all services.
    pub(crate) fn hash(self, id: &FlowId, seed: u64) -> u64 {
        let ports = u64::from(id.source_port) << 16 | u64::from(id.destination_port);
        let rest = match self {
            Self::FiveTuple => u64::from(id.protocol) << 32 | ports,
            Self::ThreeTuple => u64::from(id.protocol) << 32,
            Self::TwoTuple => 0,
        };
        let (source, destination) = (id.source.0, id.destination.0);
        let words = [source as u64, (source >> 64) as u64, destination as u64, (destination >> 64) as u64, rest];
        words.iter().fold(seed, |hash, word| mix(hash ^ word))
    }
}

/// What the source of a redirected packet becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masquerade {
    /// From where the port is taken.
    pub pool: PoolId,
    /// The new source address.
    pub address: Ip,
    /// Whether for every packet. If not, only where the client is the very backend that was chosen, and would otherwise answer itself.
    pub always: bool,
}

/// One place where a redirected connection may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    /// Its address.
    pub address: Ip,
    /// Its transport port.
    pub port: u16,
}

impl Backend {
    pub(crate) fn hash(&self) -> u64 {
        let words = [self.address.0 as u64, (self.address.0 >> 64) as u64, u64::from(self.port)];
        words.iter().fold(0, |hash, word| mix(hash ^ word))
    }
}

/// Where a redirected connection may end.
#[derive(Clone, Debug, Default)]
pub struct Backends {
    /// In order, each once. Few of them lie with the service itself.
    list: SmallVec<[Backend; 2]>,
    /// The winner of each slot, if there are so many backends that it is worth it.
    winners: Box<[u16]>,
}

/// Two lists of the same backends are the same, whatever order they were given in.
impl PartialEq for Backends {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Backends {}

/// How many slots connections fall into, as a power of two. With 2,000 backends, one has eight of them on average.
const SLOT_BITS: u32 = 14;

/// Up to this many backends the winner is found each time.
const FEW: usize = 64;

impl Backends {
    /// These backends. A list of thousands takes some tens of milliseconds.
    pub fn new(mut list: Vec<Backend>) -> Self {
        list.sort_unstable();
        list.dedup();
        let winners = if list.len() > FEW && u16::try_from(list.len()).is_ok() { winners(&list) } else { Box::default() };
        Self { list: list.into(), winners }
    }

    /// All of them, in order.
    pub fn list(&self) -> &[Backend] {
        &self.list
    }

    /// Whether this is one of them.
    pub fn contains(&self, backend: &Backend) -> bool {
        self.list.binary_search(backend).is_ok()
    }

    /// The backend for a number that stands for a connection. A change of one backend moves only the numbers that had it.
    pub fn select(&self, connection: u64) -> Option<Backend> {
        let slot = mix(connection) >> (u64::BITS - SLOT_BITS);
        match self.winners.get(slot as usize) {
            Some(winner) => self.list.get(usize::from(*winner)).copied(),
            None => self.list.iter().copied().max_by_key(|backend| score(mix(slot), backend.hash())),
        }
    }
}

/// What a backend scores in a slot, both as numbers that are mixed already.
fn score(slot: u64, backend: u64) -> u64 {
    mix(slot ^ backend)
}

/// The winner of every slot.
fn winners(list: &[Backend]) -> Box<[u16]> {
    let hashes: Vec<u64> = list.iter().map(Backend::hash).collect();
    let winner = |slot: u64| {
        let slot = mix(slot);
        (0..hashes.len()).max_by_key(|at| score(slot, hashes[*at])).unwrap_or(0) as u16
    };
    (0..1u64 << SLOT_BITS).map(winner).collect()
}

#[cfg(test)]
mod tests;
