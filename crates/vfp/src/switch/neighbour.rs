//! ARP and neighbour discovery: answered, passed on, or dropped, as the rules of the domain say.

use wire::{Encapsulation, Frame, Headers, Ip, Kind, MacAddress, arp, neighbour};

use super::core::Core;
use super::walk::{End, Facts, Packet};
use super::{Sink, Switch};
use crate::action::Action;
use crate::flow::connection::Way;
use crate::port::{Direction, PortId, PortKind};
use crate::rule::RuleId;
use crate::time::Instant;
use crate::verdict::{DropReason, Egress, Outcome, Tier, Verdict};

/// What happens to a neighbour message.
pub(super) enum Plan {
    Answer(MacAddress),
    Pass { egress: Egress, source_mac: Option<MacAddress>, destination_mac: Option<MacAddress> },
    Flood,
}

impl Switch {
    pub(super) fn neighbour(
        &self,
        port: PortId,
        frame: &mut Frame,
        headers: &Headers,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        let packet = Packet { now: Instant::default(), port, headers, encapsulation, bytes: frame.len(), trial: false };
        let plan = self.core().plan_neighbour(&packet);
        match plan {
            Err(end) => dropped(end),
            Ok((Plan::Answer(mac), rule)) => answered(self.answer(port, frame, headers, mac, encapsulation, sink), rule),
            Ok((Plan::Pass { egress, source_mac, destination_mac }, rule)) => {
                translate(frame, headers, source_mac, destination_mac);
                self.send(&egress, frame, sink);
                Verdict { outcome: Outcome::Forwarded(egress), rule, tier: Tier::New }
            }
            Ok((Plan::Flood, _)) => self.group_frame(port, frame, headers, encapsulation, sink),
        }
    }

    fn answer(
        &self,
        port: PortId,
        frame: &mut Frame,
        headers: &Headers,
        mac: MacAddress,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> bool {
        let reply = sink.scratch();
        if !make_answer(frame, headers, mac, reply) {
            return false;
        }
        self.core().counters.neighbours_answered += 1;
        std::mem::swap(frame, reply);
        self.send(&Egress { port, encapsulation: encapsulation.copied() }, frame, sink);
        true
    }
}

pub(super) fn dropped(end: End) -> Verdict {
    match end {
        End::Drop(reason, rule) | End::Refuse(reason, rule) => Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New },
        End::Unresolved(..) => Verdict::drop(DropReason::NoRoute),
    }
}

pub(super) fn answered(made: bool, rule: RuleId) -> Verdict {
    let outcome = if made { Outcome::Answered } else { Outcome::Dropped(DropReason::GroupNotForwarded) };
    Verdict { outcome, rule, tier: Tier::New }
}

/// Makes `reply` the answer to a request. Whether there is one to be given.
pub(super) fn make_answer(frame: &Frame, headers: &Headers, mac: MacAddress, reply: &mut Frame) -> bool {
    match headers.id.destination.is_v4() {
        true => arp::answer(frame.bytes(), headers, mac, reply),
        false => neighbour::answer(frame.bytes(), headers, mac, false, reply),
    }
}

impl Core {
    pub(super) fn plan_neighbour(&mut self, packet: &Packet<'_>) -> Result<(Plan, RuleId), End> {
        let Packet { port, headers, .. } = *packet;
        let mut facts = Facts::first(self, packet)?;
        // Layers without state have their say: the one that pops a tunnel, and the one that guards against foreign senders.
        self.layers(port, Direction::Out, &mut facts, Way::Reply)?;
        self.check_speaker(port, headers)?;
        let request = headers.kind == (Kind::Neighbour { request: true });
        let domain = self.domains.get(&facts.domain).ok_or(End::drop(DropReason::NoRoute))?;
        let group = if request { domain.neighbour(facts.from) } else { domain.forward(facts.from) };
        let rule = group.find(&facts.subject, &mut |_| {}).cloned();
        let Some(rule) = rule else {
            return match headers.is_group() && !request {
                true => Ok((Plan::Flood, RuleId::NONE)),
                false => Err(End::drop(DropReason::NoRoute)),
            };
        };
        if !packet.trial {
            rule.count(1, packet.bytes as u64);
        }
        let plan = match &rule.spec.action {
            Action::Answer(mac) => Plan::Answer(*mac),
            Action::Flood => Plan::Flood,
            Action::Forward { port: to, source_mac, destination_mac } => self.pass(port, *to, *source_mac, *destination_mac, request)?,
            Action::Push { .. } if facts.from == PortKind::Tunnel => return Err(End::Drop(DropReason::SplitHorizon, rule.id)),
            Action::Push { port: to, encapsulation, source_mac, destination_mac } => {
                let egress = Egress { port: *to, encapsulation: Some(*encapsulation) };
                Plan::Pass { egress, source_mac: *source_mac, destination_mac: *destination_mac }
            }
            Action::Block(reason) => return Err(End::Drop(*reason, rule.id)),
            _ => return Err(End::Drop(DropReason::NoRoute, rule.id)),
        };
        Ok((plan, rule.id))
    }

    fn pass(
        &self,
        from: PortId,
        to: PortId,
        source_mac: Option<MacAddress>,
        destination_mac: Option<MacAddress>,
        request: bool,
    ) -> Result<Plan, End> {
        let (Some(source), Some(target)) = (self.port(from), self.port(to)) else {
            return Err(End::drop(DropReason::PortGone));
        };
        if from == to && !source.spec.hairpin {
            return Err(End::drop(DropReason::SamePort));
        }
        let hidden = source.spec.hidden_behind.filter(|_| target.spec.kind == PortKind::Uplink);
        // A request goes to a group; only an answer goes to somebody in particular.
        let destination_mac = destination_mac.filter(|_| !request);
        Ok(Plan::Pass { egress: Egress { port: to, encapsulation: None }, source_mac: hidden.or(source_mac), destination_mac })
    }

    /// A NIC may speak for its own addresses only, and is not told that it has them.
    fn check_speaker(&self, port: PortId, headers: &Headers) -> Result<(), End> {
        let Some(port) = self.port(port) else {
            return Err(End::drop(DropReason::PortGone));
        };
        let own = &port.spec.addresses;
        if port.spec.kind != PortKind::Nic || own.is_empty() {
            return Ok(());
        }
        let speaker = headers.id.source;
        let nobody = speaker == Ip::NONE || speaker == Ip::v4(0);
        if !nobody && speaker != port.spec.mac.link_local() && !own.contains(&speaker) {
            return Err(End::drop(DropReason::SpoofedSource));
        }
        match own.contains(&headers.id.destination) {
            true => Err(End::drop(DropReason::SamePort)),
            false => Ok(()),
        }
    }
}

/// Changes the hardware addresses of a frame, and those that a neighbour or router message tells.
pub(super) fn translate(frame: &mut Frame, headers: &Headers, source_mac: Option<MacAddress>, destination_mac: Option<MacAddress>) {
    let bytes = frame.bytes_mut();
    let is_arp = headers.ether_type == wire::number::ether_type::ARP;
    if let Some(mac) = destination_mac {
        bytes[..6].copy_from_slice(&mac.0);
        if is_arp {
            arp::set_target_mac(bytes, headers, mac);
        }
    }
    if let Some(mac) = source_mac {
        bytes[6..12].copy_from_slice(&mac.0);
        match is_arp {
            true => arp::set_sender_mac(bytes, headers, mac),
            false => neighbour::set_link_address(bytes, headers, mac),
        };
    }
}
