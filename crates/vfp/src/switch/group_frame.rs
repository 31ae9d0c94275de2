//! Frames for groups of receivers: broadcast and multicast.

use wire::{Encapsulation, Frame, Headers, MacAddress};

use super::core::Core;
use super::known::is_too_large;
use super::neighbour::translate;
use super::walk::{End, Facts, Packet};
use super::{Sink, Switch};
use crate::domain::Flood;
use crate::flow::connection::Way;
use crate::port::{Direction, PortId, PortKind};
use crate::rule::RuleId;
use crate::time::Instant;
use crate::verdict::{DropReason, Egress, Outcome, Tier, Verdict};

/// One copy of a frame: where it goes, and from which address if not from the sender's own.
pub(super) struct Copy {
    to: PortId,
    source_mac: Option<MacAddress>,
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
        let packet = Packet { now: Instant::default(), port, headers, encapsulation, bytes: frame.len(), trial: false };
        let copies = self.core().copies(&packet, frame);
        for copy in copies.iter().flatten() {
            let mut piece = std::mem::take(sink.scratch());
            piece.copy_from(frame);
            translate(&mut piece, headers, copy.source_mac, None);
            self.send(&Egress { port: copy.to, encapsulation: None }, &mut piece, sink);
            *sink.scratch() = piece;
        }
        flooded(copies)
    }
}

/// What became of a frame of which these copies were made.
pub(super) fn flooded(copies: Result<Vec<Copy>, End>) -> Verdict {
    match copies {
        Ok(copies) if copies.is_empty() => Verdict::drop(DropReason::GroupNotForwarded),
        Ok(copies) => Verdict { outcome: Outcome::Flooded(copies.len() as u32), rule: RuleId::NONE, tier: Tier::New },
        Err(End::Drop(reason, rule) | End::Refuse(reason, rule)) => Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New },
        Err(End::Unresolved(..)) => Verdict::drop(DropReason::GroupNotForwarded),
    }
}

impl Core {
    pub(super) fn copies(&mut self, packet: &Packet<'_>, frame: &Frame) -> Result<Vec<Copy>, End> {
        let mut facts = Facts::first(self, packet)?;
        let passed = self.layers(packet.port, Direction::Out, &mut facts, Way::Forward);
        if !packet.trial {
            facts.count(packet.bytes);
        }
        self.give_back(&facts);
        passed?;
        if facts.is_translated {
            // Nobody answers a group for it, so a translated sender would wait in vain.
            return Err(End::Drop(DropReason::GroupNotForwarded, facts.decisive));
        }
        if facts.is_other && !self.domains.get(&facts.domain).is_some_and(|domain| domain.spec.other_protocols) {
            return Err(End::Drop(DropReason::NotIp, facts.decisive));
        }
        let receivers = self.receivers(packet.port, &facts);
        Ok(receivers.into_iter().filter_map(|to| self.copy(packet, frame, to)).collect())
    }

    fn receivers(&self, port: PortId, facts: &Facts) -> Vec<PortId> {
        let Some(domain) = self.domains.get(&facts.domain) else {
            return Vec::new();
        };
        let is = |id: &PortId, kind: PortKind| self.port(*id).is_some_and(|port| port.spec.kind == kind);
        let wants = |id: &PortId| match domain.spec.flood {
            Flood::Nobody => false,
            Flood::Listed => domain.listed.contains(id) || (facts.from == PortKind::Nic && is(id, PortKind::Uplink)),
            Flood::Everybody => true,
        };
        // Into a tunnel only rules can send, as they alone know whom to.
        domain.ports.union(&domain.listed).copied().filter(|id| *id != port && wants(id) && !is(id, PortKind::Tunnel)).collect()
    }

    /// The copy for one receiver, if it fits and its layers let it through.
    fn copy(&mut self, packet: &Packet<'_>, frame: &Frame, to: PortId) -> Option<Copy> {
        let mut facts = Facts::first(self, packet).ok()?;
        let passed = self.layers(to, Direction::In, &mut facts, Way::Forward);
        if !packet.trial {
            facts.count(packet.bytes);
        }
        self.give_back(&facts);
        passed.ok()?;
        let target = &self.port(to)?.spec;
        if is_too_large(frame, packet.headers, target.mtu) {
            return None;
        }
        let hidden = self.port(packet.port)?.spec.hidden_behind.filter(|_| target.kind == PortKind::Uplink);
        Some(Copy { to, source_mac: hidden })
    }
}
