//! The fast path: a flow that is in the unified flow table.

use std::sync::atomic::Ordering;

use wire::{Encapsulation, Frame, Headers};

use super::walk::opens;
use super::{Sink, Switch, is_cached};
use crate::counters::add;
use crate::flow::key::FlowKey;
use crate::port::PortId;
use crate::time::Instant;
use crate::verdict::{Egress, Outcome, Tier, Verdict};

impl Switch {
    /// Handles a packet whose flow is known, or answers that it is not.
    #[inline]
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
        let from = self.cells.get(port.0 as usize)?;
        let to = self.cells.get(entry.to.0 as usize)?;
        let current = [from.generation.load(Ordering::Acquire), to.generation.load(Ordering::Acquire)];
        if entry.generations != current || is_too_large(frame, headers, entry.mtu) {
            return None;
        }
        self.flows.note(slot, now, frame.len(), headers.tcp_flags);
        add(&self.unified[port.0 as usize], 1);
        entry.transposition.apply(frame, headers);
        to.counters.received(frame.len());
        let egress = Egress { port: entry.to, encapsulation: entry.encapsulation };
        sink.send(&egress, frame);
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
