//! Later fragments have no transport header; what the first one said is kept for them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use wire::{FlowId, Ip};

use crate::port::PortId;
use crate::time::Instant;

/// How long the pieces of a packet may take to arrive (RFC 791 suggests 15 seconds at least).
const PATIENCE: Duration = Duration::from_secs(30);

/// Of how many packets in pieces one port may be the source. Where it sends more, the oldest are forgotten: pieces of one
/// packet follow each other closely, so that what is forgotten is mostly complete.
const SHARE: usize = 1024;

/// What the pieces of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pieces {
    pub(crate) port: PortId,
    pub(crate) vni: u32,
    pub(crate) source: Ip,
    pub(crate) destination: Ip,
    pub(crate) protocol: u8,
    pub(crate) id: u32,
}

/// What first fragments said.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    known: HashMap<Pieces, (FlowId, Instant)>,
    /// Those of each port, oldest first.
    by_port: HashMap<PortId, VecDeque<Pieces>>,
}

impl Fragments {
    /// Notes a first fragment.
    pub(crate) fn first(&mut self, pieces: Pieces, id: FlowId, now: Instant) {
        if self.known.insert(pieces, (id, now)).is_some() {
            return;
        }
        let own = self.by_port.entry(pieces.port).or_default();
        own.push_back(pieces);
        if own.len() > SHARE
            && let Some(oldest) = own.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The flow of a later fragment.
    pub(crate) fn later(&self, pieces: &Pieces) -> Option<FlowId> {
        self.known.get(pieces).map(|(id, _)| *id)
    }

    /// Forgets what is too old.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.known.retain(|_, (_, at)| now.since(*at) < PATIENCE);
        for own in self.by_port.values_mut() {
            own.retain(|pieces| self.known.contains_key(pieces));
        }
        self.by_port.retain(|_, own| !own.is_empty());
    }
}
