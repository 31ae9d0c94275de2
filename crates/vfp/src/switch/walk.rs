//! The slow path: walking the layers.
//!
//! A packet meets the layers of the port it comes from, is forwarded by its domain, and meets the layers of the port it goes
//! to in reverse. If it belongs to a connection, stateful layers decide as they did before, and let answers pass.

mod act;
mod facts;
mod foresee;
mod redirect;
mod source;
mod take_up;

use wire::number::{protocol, tcp_flag};
use wire::{Encapsulation, FlowId, Fragment, Frame, Headers, Ip, Kind, MacAddress};

pub(super) use self::facts::Facts;
use super::core::Core;
use super::known::is_too_large;
use super::{Sink, Switch, is_cached};
use crate::flow::connection::{Connection, ConnectionId, LOOKED_AT, Scope, Side, Way};
use crate::flow::entry::Entry;
use crate::flow::expiry::TcpState;
use crate::flow::key::FlowKey;
use crate::fragment::Pieces;
use crate::offload::OffloadKey;
use crate::port::{Direction, PortId, PortKind};
use crate::rule::RuleId;
use crate::time::Instant;
use crate::transposition::{Shape, Transposition};
use crate::underlay::UnderlayId;
use crate::verdict::{DropReason, Egress, Outcome, Tier, Verdict};

/// Why a walk ended before the packet could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Drop(DropReason, RuleId),
    /// As above, and the sender is told.
    Refuse(DropReason, RuleId),
    Unresolved(UnderlayId, Ip),
}

impl End {
    pub(super) const fn drop(reason: DropReason) -> Self {
        Self::Drop(reason, RuleId::NONE)
    }
}

/// What a walk found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) egress: Egress,
    pub(super) transposition: Transposition,
    pub(super) rule: RuleId,
    pub(super) tier: Tier,
    pub(super) mtu: u16,
    /// Whether another connection of the same name would be decided about the same.
    pub(super) again: bool,
}

/// A packet on its way through the slow path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) now: Instant,
    pub(super) port: PortId,
    pub(super) headers: &'a Headers,
    pub(super) encapsulation: Option<&'a Encapsulation>,
    pub(super) bytes: usize,
    /// Whether it is only asked what would happen: then nothing is counted, remembered or ended.
    pub(super) trial: bool,
}

impl Packet<'_> {
    pub(super) fn scope(&self) -> Scope {
        Scope { port: self.port, vni: self.encapsulation.map_or(0, |outer| outer.vni), id: self.headers.id }
    }

    fn shape(&self) -> Shape {
        let Headers { id, source_mac, destination_mac, .. } = *self.headers;
        Shape { id, source_mac, destination_mac }
    }
}

impl Switch {
    /// Walks the layers for one packet, remembers what was found, and sends it.
    pub(super) fn walk(
        &self,
        now: Instant,
        port: PortId,
        frame: &mut Frame,
        mut headers: Headers,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        let decided = {
            let core = &mut *self.core();
            core.join_fragments(now, port, &mut headers, encapsulation).and_then(|()| {
                let packet = Packet { now, port, headers: &headers, encapsulation, bytes: frame.len(), trial: false };
                self.decide(core, &packet)
            })
        };
        match decided {
            Ok(decided) if is_too_large(frame, &headers, decided.mtu) => {
                self.too_large(&decided, frame, &headers, port, encapsulation, sink)
            }
            Ok(decided) => {
                decided.transposition.apply(frame, &headers);
                self.send(&decided.egress, frame, sink);
                Verdict { outcome: Outcome::Forwarded(decided.egress), rule: decided.rule, tier: decided.tier }
            }
            Err(End::Drop(reason, rule)) => Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New },
            Err(End::Refuse(reason, rule)) => {
                self.refuse(frame, &headers, port, encapsulation, sink);
                Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New }
            }
            Err(End::Unresolved(underlay, next_hop)) => {
                sink.resolve(underlay, next_hop, port, frame);
                Verdict::drop(DropReason::NoNeighbour)
            }
        }
    }

    fn decide(&self, core: &mut Core, packet: &Packet<'_>) -> Result<Decided, End> {
        let found = self.find_out(core, packet)?;
        let id = match found.connection {
            Some(id) => id,
            // Nothing answers an error or what is not IP.
            None if packet.headers.kind != Kind::Ip => {
                found.facts.count(packet.bytes);
                return Ok(found.decided);
            }
            None => {
                let id = self.connect(core, packet, &found)?;
                let (choice, is_particular) = (found.facts.choice, found.facts.is_particular);
                let decided = self.remember(core, id, packet, found)?;
                self.foresee(core, id, packet, &decided, None);
                if !is_particular && (opens(packet.headers) || packet.headers.id.protocol == protocol::UDP) {
                    self.allow_opening(core, id, choice, false);
                }
                return Ok(decided);
            }
        };
        let is_answer = found.way == Way::Reply;
        let decided = self.remember(core, id, packet, found)?;
        if is_answer {
            self.correct_opening(core, id);
        }
        Ok(decided)
    }

    /// Walks, as a reply, as a later packet, or as a first one.
    pub(super) fn find_out(&self, core: &mut Core, packet: &Packet<'_>) -> Result<Found, End> {
        // It may belong to a connection that was opened elsewhere.
        if !packet.trial && !opens(packet.headers) && core.connections.find(&packet.scope()).is_none() {
            self.take_up_opened(core, packet.now);
        }
        self.find_out_wishing(core, packet, None)
    }

    /// As above, with what a first packet is to become if that can be.
    fn find_out_wishing(&self, core: &mut Core, packet: &Packet<'_>, wish: Option<FlowId>) -> Result<Found, End> {
        if let Some((id, way)) = core.connections.find(&packet.scope()) {
            if self.opens_again(core, packet, id, way) {
                self.expire(core, packet, id);
            } else if let Some(found) = self.find_known(core, packet, id, way)? {
                return Ok(found);
            } else if !packet.trial {
                self.revoke(core, id);
            }
        }
        core.counters.new += 1;
        let mut facts = Facts { wish, ..Facts::first(core, packet)? };
        let egress = core.travel(packet, &mut facts, Way::Forward)?;
        if packet.headers.kind == Kind::Ip {
            self.make_unique(core, packet, &mut facts, &egress)?;
        }
        Ok(found(core, packet, facts, egress, None, Way::Forward))
    }

    /// Answers must tell whose they are. Where they would look like those of another connection, this one gets another source port.
    fn make_unique(&self, core: &mut Core, packet: &Packet<'_>, facts: &mut Facts, egress: &Egress) -> Result<(), End> {
        let reply = reply_of(facts, egress);
        let translated = facts.subject.id != packet.headers.id;
        if reply == packet.scope() || !self.is_taken(core, &reply, translated, packet.trial) {
            return Ok(());
        }
        let renamed = core.rename(facts, packet.port, &reply);
        renamed.inspect_err(|_| core.give_back(facts)).map_err(|reason| End::Drop(reason, facts.decisive))
    }

    /// Whether a packet opens a connection under the name of one that is over, whoever of the two began that one; or of one that its sender
    /// began, and has said to be done with.
    fn opens_again(&self, core: &mut Core, packet: &Packet<'_>, id: ConnectionId, way: Way) -> bool {
        if !opens(packet.headers) {
            return false;
        }
        core.collect(id, &self.flows);
        core.connections.get(id).is_some_and(|connection| {
            let (forward, reply) = (connection.forward.seen.tcp_flags, connection.reply.seen.tcp_flags);
            let is_done = way == Way::Forward && forward & tcp_flag::FIN != 0;
            is_done || TcpState::from_flags(forward, reply) == TcpState::Closed
        })
    }

    fn expire(&self, core: &mut Core, packet: &Packet<'_>, id: ConnectionId) {
        if !packet.trial {
            core.counters.connections_expired += 1;
            core.end(id, &self.flows);
        }
    }

    /// Walks for a connection that is known. `None` says that policy no longer allows it as it is.
    fn find_known(&self, core: &mut Core, packet: &Packet<'_>, id: ConnectionId, way: Way) -> Result<Option<Found>, End> {
        core.counters.connection += 1;
        if !self.is_still_allowed(core, id, packet.trial) {
            return Ok(None);
        }
        let mut facts = Facts::first(core, packet)?;
        let Some(connection) = core.connections.get(id) else { return Ok(None) };
        let (forward, reply) = (connection.forward.scope, connection.reply.scope);
        facts.within(id, connection);
        if way == Way::Reply {
            facts.restored = Some(forward.id.reverse());
            facts.returning(core, id);
        }
        let egress = core.travel(packet, &mut facts, way)?;
        // A connection whose packets now go elsewhere, or under another name, is not the same one any more. Nor are answers that
        // would go to somebody who never asked, unless that is the node, which routes for those behind it.
        let asked = match way {
            Way::Reply if egress.port != forward.port => self.asked_through(core, &forward, egress.port, packet.trial),
            _ => None,
        };
        if let Some(asked) = asked.and_then(|asked| core.connections.get(asked)) {
            // It may have asked for a service, and is answered by that.
            facts.subject.id = asked.forward.scope.id.reverse();
        }
        let same = match way {
            Way::Forward => reply_of(&facts, &egress) == reply,
            Way::Reply => egress.port == forward.port || asked.is_some() || core.hides_behind(packet.port, egress.port),
        };
        if !same {
            core.give_back(&facts);
            return Ok(None);
        }
        if way == Way::Forward && !packet.trial {
            self.meet_again(core, id, packet);
        }
        Ok(Some(Found { asked, ..found(core, packet, facts, egress, Some(id), way) }))
    }

    /// Takes in from whose frame a connection's packets come now: a router gets another hardware address, a node another address in the
    /// underlay. Answers go back to where the last packet came from.
    fn meet_again(&self, core: &mut Core, id: ConnectionId, packet: &Packet<'_>) {
        let Headers { source_mac, destination_mac, .. } = *packet.headers;
        let encapsulation = packet.encapsulation.copied();
        let is_same = |connection: &Connection| {
            (connection.source_mac, connection.destination_mac) == (source_mac, destination_mac)
                && connection.encapsulation == encapsulation
        };
        if core.connections.get(id).is_none_or(is_same) {
            return;
        }
        core.collect(id, &self.flows);
        let Some(connection) = core.connections.get_mut(id) else { return };
        (connection.source_mac, connection.destination_mac, connection.encapsulation) = (source_mac, destination_mac, encapsulation);
        connection.reply.collected = Default::default();
        if let Some(slot) = connection.reply.slot.take()
            && self.flows.owner(slot) == id
        {
            self.flows.erase(slot);
        }
    }

    /// The connection by which a port sent packets to where another took them up as they had become: a NIC whose gateway is the node.
    /// The node's answers are then its own, though they come back past the node.
    fn asked_through(&self, core: &mut Core, taken_up: &Scope, port: PortId, trial: bool) -> Option<ConnectionId> {
        let (id, way) = core.connections.find(&taken_up.reverse())?;
        let is_its_own = core.connections.get(id)?.forward.scope.port == port;
        (way == Way::Reply && is_its_own && self.is_still_allowed(core, id, trial)).then_some(id)
    }

    /// Whether the first packet of a connection would still be allowed, and translated the same.
    fn is_still_allowed(&self, core: &mut Core, id: ConnectionId, trial: bool) -> bool {
        let Some(connection) = core.connections.get(id) else { return false };
        let current = connection.ports.map(|port| self.generation(port));
        if connection.generations == current {
            return true;
        }
        // What was counted until now belongs to the rules it was counted under.
        core.collect(id, &self.flows);
        let Some(connection) = core.connections.get(id) else { return false };
        let (reply_scope, memory, origin) = (connection.reply.scope, connection.memory, connection.forward.scope.port);
        core.counters.resimulated += 1;
        let Ok(mut facts) = Facts::again(id, connection).entering(core, origin) else { return false };
        let egress = core.journey(origin, &mut facts, Way::Forward);
        let same = egress.is_ok_and(|egress| reply_of(&facts, &egress) == reply_scope) && facts.memory == memory;
        if !same {
            core.give_back(&facts);
            return false;
        }
        if !trial && let Some(connection) = core.connections.get_mut(id) {
            connection.generations = current;
            connection.forward.rules = facts.rules;
        }
        true
    }

    fn revoke(&self, core: &mut Core, id: ConnectionId) {
        core.counters.connections_revoked += 1;
        core.end(id, &self.flows);
    }

    /// Makes a connection of a first packet.
    fn connect(&self, core: &mut Core, packet: &Packet<'_>, found: &Found) -> Result<ConnectionId, End> {
        let forward = packet.scope();
        let reply = reply_of(&found.facts, &found.decided.egress);
        if !core.connections.has_share(packet.port) {
            self.make_room(core, packet).inspect_err(|_| core.give_back(&found.facts))?;
        }
        let ports = [packet.port, found.decided.egress.port];
        let Headers { source_mac, destination_mac, ether_type, .. } = *packet.headers;
        core.counters.connections_made += 1;
        if let (Some((client, timeout)), Some(backend)) = (found.facts.loyal, found.facts.memory.backend) {
            core.affinities.note(client, backend, timeout, packet.now);
        }
        Ok(core.connections.insert(Connection {
            forward: Side::new(forward),
            reply: Side::new(reply),
            source_mac,
            destination_mac,
            ether_type,
            encapsulation: packet.encapsulation.copied(),
            domain: found.facts.domain,
            routed: found.facts.routed,
            towards: found.facts.towards,
            memory: found.facts.memory,
            ports,
            generations: ports.map(|port| self.generation(port)),
            answered_past: false,
            made: packet.now,
            collected_at: packet.now,
        }))
    }

    /// Whether answers like these belong to a connection already. One that policy no longer allows has to make room, unless it is only
    /// asked.
    ///
    /// Where the way back is another than the way there, as through a node that routes, answers are a connection of their own: they
    /// come from where somebody else's first packets come from. That is no harm as long as nothing is translated.
    fn is_taken(&self, core: &mut Core, reply: &Scope, translated: bool, trial: bool) -> bool {
        let Some((id, way)) = core.connections.find(reply) else { return false };
        if way == Way::Forward && !translated {
            return false;
        }
        // The very same conversation from another port has found another way, and goes on by that.
        let is_moved = !translated && core.connections.get(id).is_some_and(|other| other.forward.scope.id == reply.id.reverse());
        let taken = !is_moved && self.is_still_allowed(core, id, trial);
        if !taken && !trial {
            self.revoke(core, id);
        }
        taken
    }

    /// Ends a connection of the port that nobody would miss, or says that there is none.
    fn make_room(&self, core: &mut Core, packet: &Packet<'_>) -> Result<(), End> {
        for _ in 0..LOOKED_AT {
            let Some(id) = core.connections.next_owned(packet.port) else { break };
            // Whether it is over may be known to the fast path alone.
            core.collect_all(id, &self.flows);
            let judge = |core: &Core, connection: &Connection| core.is_expendable(connection, packet.now);
            if core.connections.get(id).is_some_and(|connection| judge(core, connection)) && core.is_over(id, &self.flows, judge) {
                core.counters.connections_evicted += 1;
                core.end(id, &self.flows);
                return Ok(());
            }
        }
        Err(End::drop(DropReason::NoFlowResources))
    }

    /// Counts the packet for its connection, and puts its flow into the unified flow table.
    fn remember(&self, core: &mut Core, id: ConnectionId, packet: &Packet<'_>, found: Found) -> Result<Decided, End> {
        let Found { facts, decided, way, asked, .. } = found;
        if let Some(connection) = asked.and_then(|asked| core.connections.get_mut(asked)) {
            connection.answered_past = true;
            connection.reply.seen.tcp_flags |= packet.headers.tcp_flags;
        }
        let Some(connection) = core.connections.get_mut(id) else {
            return Err(End::drop(DropReason::NoFlowResources));
        };
        let side = connection.side(way);
        // What the slot has counted belongs to the rules it was counted under.
        core.counters.unified += self.flows.collect(side);
        side.rules = facts.rules;
        // Who answers begins with SYN, and what that side of a connection of the same name did before does not count any more. Who asks does so
        // in the middle only by mistake: else it would be another connection.
        if way == Way::Reply && packet.headers.tcp_flags & tcp_flag::SYN != 0 {
            side.seen.tcp_flags = 0;
        }
        side.add(1, packet.bytes as u64, packet.now, packet.headers.tcp_flags);
        if is_cached(packet.headers) {
            self.cache(core, id, packet, &decided, way, None);
        }
        Ok(decided)
    }

    /// Puts a flow into the unified flow table. `there` is the key under which it is elsewhere already.
    fn cache(&self, core: &mut Core, id: ConnectionId, packet: &Packet<'_>, decided: &Decided, way: Way, there: Option<&OffloadKey>) {
        let key = FlowKey::new(packet.port, packet.encapsulation.map_or(0, |outer| outer.vni), packet.headers);
        let (slot, displaced) = self.flows.place(&key);
        if displaced {
            core.counters.flows_displaced += 1;
            core.displace(self.flows.owner(slot), slot, &self.flows);
        }
        let origin = core.connections.get(id).map_or(packet.port, |connection| connection.forward.scope.port);
        let is_past = way == Way::Reply && origin != decided.egress.port;
        let entry = Entry {
            key,
            past: is_past.then(|| (origin, self.generation(origin))),
            to: decided.egress.port,
            rule: decided.rule,
            connection: id,
            reply: way == Way::Reply,
            offloaded: false,
            again: decided.again && way == Way::Forward,
            mtu: decided.mtu,
            generations: [self.generation(packet.port), self.generation(decided.egress.port)],
            transposition: decided.transposition,
            encapsulation: decided.egress.encapsulation,
            provider: packet.encapsulation.map_or(Ip::NONE, |outer| outer.remote),
        };
        self.flows.write(slot, &entry, packet.now, there == Some(&key.0));
        if let Some(connection) = core.connections.get_mut(id) {
            let side = connection.side(way);
            let old = side.slot.replace(slot);
            side.collected = Default::default();
            // The flow was known with other frame addresses; those packets walk again.
            if let Some(old) = old.filter(|old| *old != slot)
                && self.flows.owner(old) == id
            {
                self.flows.erase(old);
            }
            self.flows.release(connection.side(way.other()));
        }
    }
}

/// What a walk found, before it is remembered.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) facts: Facts,
    pub(super) decided: Decided,
    connection: Option<ConnectionId>,
    way: Way,
    /// The connection whose answer it is besides.
    asked: Option<ConnectionId>,
}

fn found(core: &Core, packet: &Packet<'_>, facts: Facts, egress: Egress, connection: Option<ConnectionId>, way: Way) -> Found {
    let after = Shape { id: facts.subject.id, source_mac: facts.subject.source_mac, destination_mac: facts.subject.destination_mac };
    let tier = if connection.is_some() { Tier::Connection } else { Tier::New };
    let mtu = core.port(egress.port).map_or(u16::MAX, |port| port.spec.mtu);
    let transposition = Transposition::between(&packet.shape(), &after);
    let decided = Decided { egress, transposition, rule: facts.decisive, tier, mtu, again: facts.loyal.is_none() && !facts.is_kept };
    Found { facts, decided, connection, way, asked: None }
}

/// What the answers to a packet look like when they arrive.
fn reply_of(facts: &Facts, egress: &Egress) -> Scope {
    Scope { port: egress.port, vni: egress.encapsulation.map_or(0, |outer| outer.vni), id: facts.subject.id.reverse() }
}

/// Whether a packet opens a TCP connection.
#[inline]
pub(super) fn opens(headers: &Headers) -> bool {
    headers.tcp_flags & (tcp_flag::SYN | tcp_flag::ACK) == tcp_flag::SYN && headers.id.protocol == protocol::TCP
}

impl Core {
    /// The journey of a packet itself. If it ends early, the rules that were met count it, and what was taken is given back.
    pub(super) fn travel(&mut self, packet: &Packet<'_>, facts: &mut Facts, way: Way) -> Result<Egress, End> {
        self.journey(packet.port, facts, way).inspect_err(|_| {
            self.give_back(facts);
            if !packet.trial {
                facts.count(packet.bytes);
            }
        })
    }

    /// The whole way of a packet: out of one port, through a domain, into another port.
    fn journey(&mut self, port: PortId, facts: &mut Facts, way: Way) -> Result<Egress, End> {
        self.layers(port, Direction::Out, facts, way)?;
        facts.subject.id = facts.restored.unwrap_or(facts.subject.id);
        let before = (facts.subject.source_mac, facts.subject.destination_mac);
        let egress = self.forward(facts)?;
        self.note_visit(port, egress.port, facts);
        self.leave(port, egress.port, facts)?;
        self.turn(port, egress.port, before, facts);
        self.layers(egress.port, Direction::In, facts, way)?;
        if way == Way::Forward {
            self.keep_name(facts);
        }
        Ok(egress)
    }

    /// Whether a port is that of the node whose hardware address another port hides behind.
    fn hides_behind(&self, hidden: PortId, node: PortId) -> bool {
        let (Some(hidden), Some(node)) = (self.port(hidden), self.port(node)) else { return false };
        node.spec.kind == PortKind::Nic && hidden.spec.hidden_behind == Some(node.spec.mac)
    }

    /// Notes the ports that a domain sends to though neither end is one of its own.
    fn note_visit(&mut self, from: PortId, to: PortId, facts: &Facts) {
        let uplink = facts.routed.and_then(|id| self.underlays.get(&id)).map(|underlay| underlay.spec.uplink);
        let routing = uplink.and_then(|uplink| self.port(uplink)).map(|port| port.spec.domain);
        for id in [Some(facts.domain), routing].into_iter().flatten() {
            if let Some(domain) = self.domains.get_mut(&id)
                && !domain.ports.contains(&from)
                && !domain.ports.contains(&to)
            {
                domain.visited.insert(to);
            }
        }
    }

    /// What holds for every frame that leaves by a port.
    fn leave(&self, from: PortId, to: PortId, facts: &mut Facts) -> Result<(), End> {
        let (Some(source), Some(target)) = (self.port(from), self.port(to)) else {
            return Err(End::Drop(DropReason::PortGone, facts.decisive));
        };
        if from == to && !source.spec.hairpin && !facts.may_turn && target.spec.kind != PortKind::Tunnel {
            return Err(End::Drop(DropReason::SamePort, facts.decisive));
        }
        if source.spec.kind == PortKind::Tunnel && target.spec.kind == PortKind::Tunnel {
            return Err(End::Drop(DropReason::SplitHorizon, facts.decisive));
        }
        if target.spec.kind == PortKind::Uplink {
            if self.is_forged(&facts.subject.id) {
                return Err(End::Drop(DropReason::ForgedTunnel, facts.decisive));
            }
            facts.subject.source_mac = source.spec.hidden_behind.unwrap_or(facts.subject.source_mac);
        }
        Ok(())
    }

    /// Whether another node would take a packet for one of our tunnels. Those have sockets of their own and never come by here, so
    /// it is somebody else's who got the node's address by translation.
    fn is_forged(&self, id: &FlowId) -> bool {
        let speaker = (id.source, id.destination_port);
        id.protocol == protocol::UDP && self.domains.values().any(|domain| domain.speaks_as(speaker))
    }

    /// What goes back to the NIC it came from must look as if another had sent it. `before` is what its frame addresses were.
    fn turn(&self, from: PortId, to: PortId, before: (MacAddress, MacAddress), facts: &mut Facts) {
        let Some(nic) = self.port(to).filter(|port| from == to && facts.may_turn && port.spec.kind == PortKind::Nic) else { return };
        facts.subject.destination_mac = nic.spec.mac;
        if facts.subject.source_mac == before.0 {
            facts.subject.source_mac = before.1;
        }
    }

    /// Gives back what a walk took that is not going to be remembered.
    pub(super) fn give_back(&mut self, facts: &Facts) {
        let kept = facts.connection.and_then(|id| self.connections.get(id)).and_then(|connection| connection.memory.lease);
        if let Some(lease) = facts.memory.lease.filter(|lease| Some(*lease) != kept)
            && let Some(pool) = self.pools.get_mut(&lease.pool)
        {
            pool.give_back(&lease);
        }
    }

    /// A flow leaves the unified flow table; its connection stays. Elsewhere both directions go, so that a connection may be opened there again
    /// under the same name: the other one comes back with the next packet that is seen here.
    fn displace(&mut self, id: ConnectionId, slot: u32, flows: &super::Flows) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        for side in [&mut connection.forward, &mut connection.reply] {
            self.counters.unified += flows.reclaim(side);
            if side.slot == Some(slot) {
                self.counters.unified += flows.collect(side);
                side.slot = None;
            }
        }
    }

    /// Notes what a first fragment says, and tells a later one.
    fn join_fragments(
        &mut self,
        now: Instant,
        port: PortId,
        headers: &mut Headers,
        encapsulation: Option<&Encapsulation>,
    ) -> Result<(), End> {
        if let Fragment::First { id } = headers.fragment {
            self.fragments.first(pieces(port, headers, encapsulation, id), headers.id, now);
        }
        self.join_later(port, headers, encapsulation)
    }

    /// Tells a later fragment what the first one said.
    pub(super) fn join_later(&self, port: PortId, headers: &mut Headers, encapsulation: Option<&Encapsulation>) -> Result<(), End> {
        if let Fragment::Later { id, .. } = headers.fragment {
            let pieces = pieces(port, headers, encapsulation, id);
            headers.id = self.fragments.later(&pieces).ok_or(End::drop(DropReason::FragmentWithoutFirst))?;
        }
        Ok(())
    }
}

fn pieces(port: PortId, headers: &Headers, encapsulation: Option<&Encapsulation>, id: u32) -> Pieces {
    let FlowId { source, destination, protocol, .. } = headers.id;
    Pieces { port, vni: encapsulation.map_or(0, |outer| outer.vni), source, destination, protocol, id }
}
