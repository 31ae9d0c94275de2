//! ICMP errors: those that arrive about translated packets, and those that the switch sends itself.

use wire::icmp::{self, Problem};
use wire::number::protocol;
use wire::{Embedded, Encapsulation, FlowId, Frame, Headers, segment};

use super::core::Core;
use super::walk::{Decided, End, Facts, Packet};
use super::{Sink, Switch};
use crate::flow::connection::{Scope, Way};
use crate::port::PortId;
use crate::time::Instant;
use crate::transposition::{Shape, Transposition};
use crate::verdict::{DropReason, Egress, Outcome, Tier, Verdict};

/// An error on its way to the sender of the packet it is about.
pub(super) struct Returned {
    pub(super) decided: Decided,
    /// The packet it is about, as its sender knows it.
    pub(super) about: FlowId,
}

impl Switch {
    /// An error about a packet of a connection goes where that packet came from, and speaks of it as its sender knows it.
    pub(super) fn error_message(
        &self,
        now: Instant,
        port: PortId,
        frame: &mut Frame,
        headers: &Headers,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        let mut embedded = match Embedded::parse(frame.bytes(), headers) {
            Ok(embedded) => embedded,
            Err(malformed) => return Verdict::drop(malformed.into()),
        };
        let packet = Packet { now, port, headers, encapsulation, bytes: frame.len(), trial: false };
        let returned = self.core().return_error(&packet, &embedded);
        match returned {
            None => self.walk(now, port, frame, *headers, encapsulation, sink),
            Some(Err(End::Drop(reason, rule) | End::Refuse(reason, rule))) => {
                Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::Connection }
            }
            Some(Err(End::Unresolved(underlay, next_hop))) => {
                sink.resolve(underlay, next_hop, port, frame);
                Verdict::drop(DropReason::NoNeighbour)
            }
            Some(Ok(Returned { decided, about })) => {
                if about != embedded.id && !embedded.rewrite(frame.bytes_mut(), headers, &about) {
                    return Verdict::drop(DropReason::Truncated);
                }
                decided.transposition.apply(frame, headers);
                self.send(&decided.egress, frame, sink);
                Verdict { outcome: Outcome::Forwarded(decided.egress), rule: decided.rule, tier: decided.tier }
            }
        }
    }

    /// A packet does not fit the way it has to go: it is cut, where its sender allows that, or the sender is told.
    pub(super) fn too_large(
        &self,
        decided: &Decided,
        frame: &mut Frame,
        headers: &Headers,
        port: PortId,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        if self.cut(decided, frame, headers, sink) {
            return Verdict { outcome: Outcome::Forwarded(decided.egress), rule: decided.rule, tier: decided.tier };
        }
        // The switch has no address of its own, so it speaks in the name of the packet's destination.
        let (from, mac) = (headers.id.destination, headers.destination_mac);
        let problem = Problem::TooLarge { mtu: decided.mtu };
        self.tell(port, encapsulation, sink, |answer| icmp::error(frame.bytes(), headers, problem, from, mac, answer));
        Verdict { outcome: Outcome::Dropped(DropReason::PacketTooBig), rule: decided.rule, tier: decided.tier }
    }

    /// Tells the sender of a packet that nobody will answer it, as whom it was sent to would.
    pub(super) fn refuse(
        &self,
        frame: &Frame,
        headers: &Headers,
        port: PortId,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) {
        let (from, mac) = (headers.id.destination, headers.destination_mac);
        self.tell(port, encapsulation, sink, |answer| match headers.id.protocol {
            protocol::TCP => wire::tcp_reset(frame.bytes(), headers, answer),
            _ => icmp::error(frame.bytes(), headers, Problem::PortUnreachable, from, mac, answer),
        });
    }

    /// Sends what the switch itself has to say back to where a packet came from, if there is something to be said.
    fn tell(&self, port: PortId, encapsulation: Option<&Encapsulation>, sink: &mut impl Sink, make: impl FnOnce(&mut Frame) -> bool) {
        let mut answer = std::mem::take(sink.scratch());
        if make(&mut answer) {
            self.core().counters.errors_sent += 1;
            self.send(&Egress { port, encapsulation: encapsulation.copied() }, &mut answer, sink);
        }
        *sink.scratch() = answer;
    }

    fn cut(&self, decided: &Decided, frame: &mut Frame, headers: &Headers, sink: &mut impl Sink) -> bool {
        let Some(whole) = cuttable(decided, frame, headers) else { return false };
        let mut piece = std::mem::take(sink.scratch());
        let cut = wire::fragment::fragment4(&whole, headers, usize::from(decided.mtu), &mut piece, |piece| {
            self.send(&decided.egress, piece, sink)
        });
        *sink.scratch() = piece;
        cut.is_some()
    }
}

/// A packet as it leaves, to be cut; `None` if it cannot be.
pub(super) fn cuttable(decided: &Decided, frame: &Frame, headers: &Headers) -> Option<Frame> {
    if !headers.id.source.is_v4() || frame.offload.segmentation.is_some() {
        return None;
    }
    let mut whole = frame.clone();
    decided.transposition.apply(&mut whole, headers);
    // The pieces cannot be asked to complete it.
    segment::complete_checksum(&mut whole, headers).ok()?;
    Some(whole)
}

impl Core {
    /// Where an error goes that is about a packet of a known connection.
    pub(super) fn return_error(&mut self, packet: &Packet<'_>, embedded: &Embedded) -> Option<Result<Returned, End>> {
        let scope = Scope { id: embedded.id.reverse(), ..packet.scope() };
        let (id, way) = self.connections.find(&scope)?;
        let connection = self.connections.get(id)?;
        let about = match way {
            Way::Reply => connection.forward.scope.id,
            Way::Forward => connection.reply.scope.id,
        };
        let outer = packet.headers.id;
        // Where the far end itself complains, it does so under the name that the sender knows it by.
        let source = if outer.source == embedded.id.destination { about.destination } else { outer.source };
        let translated = FlowId { source, destination: about.source, ..outer };
        Some(self.carry_error(packet, id, way, translated).map(|decided| Returned { decided, about }))
    }

    fn carry_error(&mut self, packet: &Packet<'_>, connection: u32, way: Way, id: FlowId) -> Result<Decided, End> {
        let mut facts = Facts::first(self, packet)?;
        facts.restored = Some(id);
        facts.connection = Some(connection);
        match way {
            Way::Reply => facts.returning(self, connection),
            // It leaves as the packets of its connection do.
            Way::Forward => facts.following(self, connection),
        }
        let egress = self.travel(packet, &mut facts, Way::Reply)?;
        if !packet.trial {
            facts.count(packet.bytes);
        }
        let Headers { id, source_mac, destination_mac, .. } = *packet.headers;
        let before = Shape { id, source_mac, destination_mac };
        let after = Shape { id: facts.subject.id, source_mac: facts.subject.source_mac, destination_mac: facts.subject.destination_mac };
        let mtu = self.port(egress.port).map_or(u16::MAX, |port| port.spec.mtu);
        let transposition = Transposition::between(&before, &after);
        Ok(Decided { egress, transposition, rule: facts.decisive, tier: Tier::Connection, mtu, again: false })
    }
}
