//! Connections that were opened elsewhere: how they may be, and how they become ours.

use wire::FlowId;

use super::Packet;
use super::facts::{Choice, Facts};
use crate::flow::connection::{Connection, ConnectionId, Way};
use crate::flow::key::FlowKey;
use crate::offload::{Counted, OffloadFlow, OffloadKey, OffloadOpened, OffloadOpening};
use crate::port::PortId;
use crate::switch::Switch;
use crate::switch::core::Core;
use crate::time::Instant;

/// How many are taken up before packets have their turn.
const AT_ONCE: usize = 16;

/// More than are opened by those who mean to use them.
const CROWD: usize = 1024;

impl Switch {
    /// Takes up connections that were opened elsewhere since the last time: all of them, unless somebody opens more than one can follow. Packets that come up meanwhile have their turn in between: those
    /// of their connections that do not come up would overtake them by all that time.
    pub fn take_up(&self, now: Instant) {
        for _ in 0..CROWD / AT_ONCE {
            if self.take_up_some(&mut self.core(), now, AT_ONCE) {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Takes up one connection that stands elsewhere, as it stands there if policy allows that. Answers whether it did.
    pub fn adopt(&self, now: Instant, opened: &OffloadOpened) -> bool {
        self.take_up_one(&mut self.core(), now, opened)
    }

    /// As above, for a packet that may belong to one of them. Where a crowd waits, somebody floods, and nobody else's packet is to wait for that.
    pub(super) fn take_up_opened(&self, core: &mut Core, now: Instant) {
        if self.flows.offload.as_ref().is_some_and(|offload| offload.opened() <= CROWD) {
            self.take_up_some(core, now, CROWD);
        }
    }

    /// Answers whether those were all.
    fn take_up_some(&self, core: &mut Core, now: Instant, most: usize) -> bool {
        let Some(offload) = &self.flows.offload else { return true };
        offload.each_opened(most, &mut |opened| {
            if !self.take_up_one(core, now, opened) {
                // Policy does not want it any more, or its port has no share left: it may ask again here.
                for key in [Some(opened.key), opened.reply_key].into_iter().flatten() {
                    offload.remove(&key);
                }
            }
        })
    }

    fn take_up_one(&self, core: &mut Core, now: Instant, opened: &OffloadOpened) -> bool {
        let headers = FlowKey(opened.key).headers();
        let port = port_of(&opened.key);
        let packet = Packet { now, port, headers: &headers, encapsulation: opened.encapsulation.as_ref(), bytes: 0, trial: false };
        let is_current = self.is_current(opened);
        let is_new = if is_current { self.supersede(core, &packet, opened) } else { core.connections.find(&packet.scope()).is_none() };
        let Ok(found) = self.find_out_wishing(core, &packet, self.wish(opened, is_current)) else { return false };
        // Then it stands there as it is decided here, unless its answers had to be given another name.
        let stands = is_new && is_current && found.decided.transposition.source_port == headers.id.source_port;
        let id = match found.connection.map_or_else(|| self.connect(core, &packet, &found), Ok) {
            Ok(id) => id,
            Err(_) => return false,
        };
        let (decided, way) = (found.decided, found.way);
        let Some(connection) = core.connections.get_mut(id) else { return false };
        connection.side(way).rules = found.facts.rules;
        let left = if stands { Default::default() } else { self.take_away(opened) };
        for (side, counted) in [Way::Forward, Way::Reply, Way::Forward, Way::Reply].into_iter().zip(opened.counted.into_iter().chain(left))
        {
            connection.side(side).seen = connection.side(side).seen.and(&counted);
        }
        self.cache(core, id, &packet, &decided, way, stands.then_some(&opened.key));
        if way == Way::Forward {
            let answers = opened.reply_key.as_ref().filter(|_| stands);
            self.foresee(core, id, &packet, &decided, answers);
            // What is not known here would stay elsewhere for ever.
            let is_known = core.connections.get(id).is_some_and(|connection| connection.reply.slot.is_some());
            if let (Some(offload), Some(answers), false) = (&self.flows.offload, answers, is_known) {
                offload.remove(answers);
            }
        }
        true
    }

    /// Takes flows away that do not stand elsewhere as they are decided here, and answers what they have counted. Flows of another engine are not there.
    fn take_away(&self, opened: &OffloadOpened) -> [Counted; 2] {
        let Some(offload) = self.flows.offload.as_ref().filter(|_| opened.generations.is_some()) else { return Default::default() };
        [Some(opened.key), opened.reply_key].map(|key| key.map(|key| offload.remove(&key)).unwrap_or_default())
    }

    /// Ends what has the name of a connection that was opened elsewhere, or that of its answers: neither was there any more, so that is over.
    /// Answers whether nothing of it has come back there since, in the place of what was opened.
    fn supersede(&self, core: &mut Core, packet: &Packet<'_>, opened: &OffloadOpened) -> bool {
        let answers = opened.reply_key.map(|key| FlowKey(key).scope());
        let mut is_new = true;
        for (scope, is_own) in std::iter::once((packet.scope(), true)).chain(answers.map(|scope| (scope, false))) {
            let Some((id, _)) = core.connections.find(&scope) else { continue };
            let Some(connection) = core.connections.get(id) else { continue };
            // Somebody else's connection that is not over keeps its name.
            if !is_own && !core.is_expendable(connection, packet.now) {
                continue;
            }
            is_new &= ![&connection.forward, &connection.reply].into_iter().any(|side| self.flows.is_offloaded(side, id));
            self.expire(core, packet, id);
        }
        is_new
    }

    /// Whether the flows of a connection stand under the generations that its ports have now.
    fn is_current(&self, opened: &OffloadOpened) -> bool {
        let now = opened.reply_key.map(|reply| [&opened.key, &reply].map(|key| self.generation(port_of(key))));
        now.is_some() && opened.generations == now
    }

    /// What a connection is to become: what it has become elsewhere. If nothing has changed since, that follows anyway.
    fn wish(&self, opened: &OffloadOpened, is_current: bool) -> Option<FlowId> {
        let ask = || self.flows.offload.as_ref()?.translated(&opened.key);
        if is_current { None } else { opened.translated.or_else(ask) }
    }

    /// Lets connections be opened elsewhere that differ from this one in nothing but the port they come from. Whether it is answered says whether
    /// it is known how answers look.
    pub(super) fn allow_opening(&self, core: &Core, id: ConnectionId, choice: Option<Choice>, is_answered: bool) {
        let Some(offload) = &self.flows.offload else { return };
        let is_plain = |connection: &&Connection| {
            let asked = connection.forward.scope.id;
            connection.memory.lease.is_none() && choice.is_none_or(|choice| choice.asked == asked)
        };
        let Some(connection) = core.connections.get(id).filter(is_plain) else { return };
        let flow = |slot: Option<u32>| slot.map(|slot| self.flows.get(slot)).filter(|entry| entry.offloaded && entry.past.is_none());
        let (Some(forward), Some(reply)) = (flow(connection.forward.slot), flow(connection.reply.slot)) else { return };
        let kept = forward.transposition.source_port == connection.forward.scope.id.source_port;
        if let (true, Some(forward), Some(reply)) = (kept, OffloadFlow::of(&forward), OffloadFlow::of(&reply)) {
            offload.put_opening(&OffloadOpening { forward, reply, choice: choice.map(|choice| choice.of), is_answered });
        }
    }

    /// The first answer of a connection has come here, so that it looks otherwise than was foreseen: it goes to a router, say, and not to whose
    /// frame brought the question. From now on the answers to such connections are known.
    pub(super) fn correct_opening(&self, core: &mut Core, id: ConnectionId) {
        let is_first = |connection: &&Connection| connection.reply.seen.packets == 1 && connection.memory.lease.is_none();
        if self.flows.offload.is_none() {
            return;
        }
        let Some(connection) = core.connections.get(id).filter(is_first) else { return };
        let (origin, memory) = (connection.forward.scope.port, connection.memory);
        let Ok(mut facts) = Facts::again(id, connection).entering(core, origin) else { return };
        let egress = core.journey(origin, &mut facts, Way::Forward);
        if facts.memory != memory {
            core.give_back(&facts);
        } else if egress.is_ok() && !facts.is_particular {
            self.allow_opening(core, id, facts.choice, true);
        }
    }
}

fn port_of(key: &OffloadKey) -> PortId {
    PortId((key[0] >> 32) as u32)
}
