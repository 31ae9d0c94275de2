//! Asking what would become of a frame.

use wire::{Embedded, Encapsulation, Frame, Headers, Kind, fragment};

use super::core::Core;
use super::error_message::{Returned, cuttable};
use super::group_frame::flooded;
use super::known::is_too_large;
use super::neighbour::{self, Plan};
use super::walk::{Decided, End, Packet};
use super::{Switch, read};
use crate::port::PortId;
use crate::time::Instant;
use crate::verdict::{DropReason, Outcome, Tier, Verdict};

impl Switch {
    /// What the layers say of a frame now, with nothing counted, remembered, ended or sent. The frame becomes what would be sent,
    /// but for being cut. Whether there is room for one more connection is not asked.
    pub fn simulate(&self, now: Instant, port: PortId, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> Verdict {
        let headers = match read(frame) {
            Ok(headers) => headers,
            Err(reason) => return Verdict::drop(reason),
        };
        let core = &mut *self.core();
        let counters = core.counters;
        let packet = Packet { now, port, headers: &headers, encapsulation, bytes: frame.len(), trial: true };
        let verdict = match headers.kind {
            Kind::Neighbour { .. } => core.try_neighbour(&packet, frame),
            Kind::Router if core.is_no_router(port) => Verdict::drop(DropReason::RouterGuard),
            Kind::Ip | Kind::Router | Kind::Other if headers.is_group() || headers.id.destination.is_multicast() => {
                flooded(core.copies(&packet, frame))
            }
            Kind::IcmpError => self.try_error(core, &packet, frame),
            Kind::Ip | Kind::Router | Kind::Other => self.try_walk(core, &packet, frame),
        };
        core.counters = counters;
        verdict
    }

    fn try_walk(&self, core: &mut Core, packet: &Packet<'_>, frame: &mut Frame) -> Verdict {
        let mut headers = *packet.headers;
        if let Err(end) = core.join_later(packet.port, &mut headers, packet.encapsulation) {
            return ended(end, Tier::New);
        }
        match self.find_out(core, &Packet { headers: &headers, ..*packet }) {
            Ok(found) => {
                core.give_back(&found.facts);
                send(&found.decided, frame, &headers)
            }
            Err(end) => ended(end, Tier::New),
        }
    }

    fn try_error(&self, core: &mut Core, packet: &Packet<'_>, frame: &mut Frame) -> Verdict {
        let mut embedded = match Embedded::parse(frame.bytes(), packet.headers) {
            Ok(embedded) => embedded,
            Err(malformed) => return Verdict::drop(malformed.into()),
        };
        match core.return_error(packet, &embedded) {
            None => self.try_walk(core, packet, frame),
            Some(Err(end)) => ended(end, Tier::Connection),
            Some(Ok(Returned { decided, about })) => {
                if about != embedded.id && !embedded.rewrite(frame.bytes_mut(), packet.headers, &about) {
                    return Verdict::drop(DropReason::Truncated);
                }
                decided.transposition.apply(frame, packet.headers);
                Verdict { outcome: Outcome::Forwarded(decided.egress), rule: decided.rule, tier: decided.tier }
            }
        }
    }
}

impl Core {
    fn try_neighbour(&mut self, packet: &Packet<'_>, frame: &mut Frame) -> Verdict {
        match self.plan_neighbour(packet) {
            Err(end) => neighbour::dropped(end),
            Ok((Plan::Answer(mac), rule)) => {
                let mut reply = Frame::default();
                let made = neighbour::make_answer(frame, packet.headers, mac, &mut reply);
                if made {
                    *frame = reply;
                }
                neighbour::answered(made, rule)
            }
            Ok((Plan::Pass { egress, source_mac, destination_mac }, rule)) => {
                neighbour::translate(frame, packet.headers, source_mac, destination_mac);
                Verdict { outcome: Outcome::Forwarded(egress), rule, tier: Tier::New }
            }
            Ok((Plan::Flood, _)) => flooded(self.copies(packet, frame)),
        }
    }
}

fn ended(end: End, tier: Tier) -> Verdict {
    match end {
        End::Drop(reason, rule) | End::Refuse(reason, rule) => Verdict { outcome: Outcome::Dropped(reason), rule, tier },
        End::Unresolved(..) => Verdict::drop(DropReason::NoNeighbour),
    }
}

/// Makes the frame what would be sent, if it could be.
fn send(decided: &Decided, frame: &mut Frame, headers: &Headers) -> Verdict {
    let Decided { egress, rule, tier, mtu, .. } = *decided;
    let fits = !is_too_large(frame, headers, mtu)
        || cuttable(decided, frame, headers)
            .is_some_and(|whole| fragment::fragment4(&whole, headers, usize::from(mtu), &mut Frame::default(), |_| {}).is_some());
    if !fits {
        return Verdict { outcome: Outcome::Dropped(DropReason::PacketTooBig), rule, tier };
    }
    decided.transposition.apply(frame, headers);
    Verdict { outcome: Outcome::Forwarded(egress), rule, tier }
}
