//! Later fragments have no transport header; what the first one said is kept for them.

use std::collections::HashMap;
use std::time::Duration;

use wire::{FlowId, Ip};

use crate::port::PortId;
use crate::time::Instant;

/// How long the pieces of a packet may take to arrive (RFC 791 suggests 15 seconds at least).
const PATIENCE: Duration = Duration::from_secs(30);

/// How many packets in pieces are remembered at once.
const CAPACITY: usize = 8192;

/// Of how many one port may be the source.
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
    by_port: HashMap<PortId, usize>,
}

impl Fragments {
    /// Notes a first fragment. `false` if there is no room.
    pub(crate) fn first(&mut self, pieces: Pieces, id: FlowId, now: Instant) -> bool {
        let own = self.by_port.get(&pieces.port).copied().unwrap_or(0);
        if !self.known.contains_key(&pieces) {
            if own >= SHARE || self.known.len() >= CAPACITY {
                self.sweep(now);
            }
            let own = self.by_port.get(&pieces.port).copied().unwrap_or(0);
            if own >= SHARE || self.known.len() >= CAPACITY {
                return false;
            }
            *self.by_port.entry(pieces.port).or_default() += 1;
        }
        self.known.insert(pieces, (id, now));
        true
    }

    /// The flow of a later fragment.
    pub(crate) fn later(&self, pieces: &Pieces) -> Option<FlowId> {
        self.known.get(pieces).map(|(id, _)| *id)
    }

    /// Forgets what is too old.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let by_port = &mut self.by_port;
        self.known.retain(|pieces, (_, at)| {
            let keep = now.since(*at) < PATIENCE;
            if !keep && let Some(own) = by_port.get_mut(&pieces.port) {
                *own -= 1;
            }
            keep
        });
        by_port.retain(|_, own| *own > 0);
    }
}
