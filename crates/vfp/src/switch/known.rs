//! The fast path: a flow that is in the unified flow table.

use std::sync::atomic::Ordering;

use wire::{Encapsulation, Frame, Headers, Ip};

use super::walk::opens;
use super::{Sink, Switch, is_cached};
use crate::flow::key::FlowKey;
use crate::port::PortId;
use crate::time::Instant;
use crate::verdict::{Egress, Outcome, Tier, Verdict};

impl Switch {
    /// Handles a packet whose flow is known, or answers that it is not.
    // Every packet comes by here, and what it returns is large: inlined, it is written where it is wanted.
    #[inline(always)]
    pub(super) fn known(
        &self,
        now: Instant,
        port: PortId,
        frame: &mut Frame,
        headers: &Headers,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Option<Verdict> {
        // Who opens a connection may do so under the name of one that is over.
        if !is_cached(headers) || opens(headers) {
            return None;
        }
        let key = FlowKey::new(port, encapsulation.map_or(0, |outer| outer.vni), headers);
        let (slot, entry) = self.flows.find(&key)?;
        let generation = |port: PortId| Some(self.flows.cells.get(port.0 as usize)?.generation.load(Ordering::Acquire));
        let current = [generation(port)?, generation(entry.to)?];
        let provider = encapsulation.map_or(Ip::NONE, |outer| outer.remote);
        let is_past = |(port, before): (PortId, u32)| generation(port) != Some(before);
        if entry.generations != current
            || entry.past.is_some_and(is_past)
            || entry.provider != provider
            || is_too_large(frame, headers, entry.mtu)
        {
            return None;
        }
        self.flows.note(slot, now, frame.len(), headers.tcp_flags);
        entry.transposition.apply(frame, headers);
        let egress = Egress { port: entry.to, encapsulation: entry.encapsulation };
        sink.send(&egress, frame);
        // Made anew rather than copied: what the sink was shown is in memory, and would have to be read back from there.
        let egress = Egress { port: entry.to, encapsulation: entry.encapsulation };
        Some(Verdict { outcome: Outcome::Forwarded(egress), rule: entry.rule, tier: Tier::Unified })
    }
}

/// Whether a packet does not fit the way it has to go. A frame that is still to be cut is judged by its pieces.
#[inline]
pub(super) fn is_too_large(frame: &Frame, headers: &Headers, mtu: u16) -> bool {
    let length = match frame.offload.segmentation {
        None => headers.end - u32::from(headers.l3),
        Some(segmentation) => u32::from(headers.payload - headers.l3) + u32::from(segmentation.size),
    };
    length > u32::from(mtu)
}
