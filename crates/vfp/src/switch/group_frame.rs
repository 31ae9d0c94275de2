//! Frames for groups of receivers: broadcast and multicast.

use wire::{Encapsulation, Frame, Headers, MacAddress};

use super::core::Core;
use super::walk::{End, Facts, Packet};
use super::{Sink, Switch};
use crate::domain::Flood;
use crate::flow::connection::Way;
use crate::port::{Direction, PortId, PortKind};
use crate::rule::RuleId;
use crate::time::Instant;
use crate::verdict::{DropReason, Egress, Outcome, Tier, Verdict};

/// One copy of a frame: where it goes, and from which address.
struct Copy {
    to: PortId,
    source_mac: MacAddress,
}

impl Switch {
    pub(super) fn group_frame(
        &self,
        port: PortId,
        frame: &mut Frame,
        headers: &Headers,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        let copies = match self.core().copies(port, headers, encapsulation, frame.len()) {
            Ok(copies) => copies,
            Err(End::Drop(reason, rule)) => return Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New },
            Err(End::Unresolved(..)) => return Verdict::drop(DropReason::GroupNotForwarded),
        };
        for copy in &copies {
            let mut piece = std::mem::take(sink.scratch());
            piece.copy_from(frame);
            piece.bytes_mut()[6..12].copy_from_slice(&copy.source_mac.0);
            self.send(&Egress { port: copy.to, encapsulation: None }, &mut piece, sink);
            *sink.scratch() = piece;
        }
        match copies.len() {
            0 => Verdict::drop(DropReason::GroupNotForwarded),
            count => Verdict { outcome: Outcome::Flooded(count as u32), rule: RuleId::NONE, tier: Tier::New },
        }
    }
}

impl Core {
    fn copies(&mut self, port: PortId, headers: &Headers, encapsulation: Option<&Encapsulation>, bytes: usize) -> Result<Vec<Copy>, End> {
        let packet = Packet { now: Instant::default(), port, headers, encapsulation, bytes };
        let mut facts = Facts::first(self, &packet)?;
        self.layers(port, Direction::Out, &mut facts, Way::Forward)?;
        facts.rules.iter().for_each(|rule| rule.count(1, bytes as u64));
        if let Some(lease) = facts.memory.lease.take() {
            // Nobody answers a group for it, so a translated sender would wait in vain.
            if let Some(pool) = self.pools.get_mut(&lease.pool) {
                pool.give_back(&lease);
            }
            return Err(End::Drop(DropReason::GroupNotForwarded, facts.decisive));
        }
        let receivers = self.receivers(port, &facts);
        Ok(receivers.into_iter().filter_map(|to| self.copy(port, to, headers, encapsulation)).collect())
    }

    fn receivers(&self, port: PortId, facts: &Facts) -> Vec<PortId> {
        let Some(domain) = self.domains.get(&facts.domain) else {
            return Vec::new();
        };
        let is_uplink = |id: &PortId| self.port(*id).is_some_and(|port| port.spec.kind == PortKind::Uplink);
        let wants = |id: &PortId| match domain.spec.flood {
            Flood::Nobody => false,
            Flood::Listed => domain.listed.contains(id) || (facts.from == PortKind::Nic && is_uplink(id)),
            Flood::Everybody => true,
        };
        domain.ports.union(&domain.listed).copied().filter(|id| *id != port && wants(id)).collect()
    }

    /// The copy for one receiver, if its layers let it through.
    fn copy(&mut self, port: PortId, to: PortId, headers: &Headers, encapsulation: Option<&Encapsulation>) -> Option<Copy> {
        let packet = Packet { now: Instant::default(), port, headers, encapsulation, bytes: 0 };
        let mut facts = Facts::first(self, &packet).ok()?;
        self.layers(to, Direction::In, &mut facts, Way::Forward).ok()?;
        let hidden = self.port(port)?.spec.hidden_behind.filter(|_| self.port(to).is_some_and(|to| to.spec.kind == PortKind::Uplink));
        Some(Copy { to, source_mac: hidden.unwrap_or(headers.source_mac) })
    }
}
