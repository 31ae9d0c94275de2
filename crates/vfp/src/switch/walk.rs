//! The slow path: walking the layers.
//!
//! A packet meets the layers of the port it comes from, is forwarded by its domain, and meets the layers of the port it goes
//! to in reverse. If it belongs to a connection, stateful layers decide as they did before, and let answers pass.

mod act;
mod facts;

use wire::{Encapsulation, Fragment, Frame, Headers, Ip, Kind};

pub(super) use self::facts::Facts;
use super::core::Core;
use super::known::is_too_large;
use super::{Sink, Switch, is_cached};
use crate::flow::connection::{Connection, ConnectionId, Scope, Side, Way};
use crate::flow::entry::Entry;
use crate::flow::key::FlowKey;
use crate::fragment::Pieces;
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
}

/// A packet on its way through the slow path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) now: Instant,
    pub(super) port: PortId,
    pub(super) headers: &'a Headers,
    pub(super) encapsulation: Option<&'a Encapsulation>,
    pub(super) bytes: usize,
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
                let packet = Packet { now, port, headers: &headers, encapsulation, bytes: frame.len() };
                self.decide(core, &packet)
            })
        };
        match decided {
            Ok(decided) if is_too_large(frame, &headers, decided.mtu) => self.too_large(&decided, frame, &headers, port, sink),
            Ok(decided) => {
                decided.transposition.apply(frame, &headers);
                self.send(&decided.egress, frame, sink);
                Verdict { outcome: Outcome::Forwarded(decided.egress), rule: decided.rule, tier: decided.tier }
            }
            Err(End::Drop(reason, rule)) => Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New },
            Err(End::Unresolved(underlay, next_hop)) => {
                sink.resolve(underlay, next_hop, port, frame);
                Verdict::drop(DropReason::NoNeighbour)
            }
        }
    }

    /// What the layers say of a packet now, with nothing remembered and nothing sent. The frame becomes what would be sent.
    pub fn simulate(&self, now: Instant, port: PortId, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> Verdict {
        let headers = match super::read(frame) {
            Ok(headers) => headers,
            Err(reason) => return Verdict::drop(reason),
        };
        let core = &mut *self.core();
        let packet = Packet { now, port, headers: &headers, encapsulation, bytes: frame.len() };
        match self.find_out(core, &packet) {
            Ok(found) => {
                found.decided.transposition.apply(frame, &headers);
                core.give_back_new(&found);
                Verdict { outcome: Outcome::Forwarded(found.decided.egress), rule: found.decided.rule, tier: found.decided.tier }
            }
            Err(End::Drop(reason, rule)) => Verdict { outcome: Outcome::Dropped(reason), rule, tier: Tier::New },
            Err(End::Unresolved(..)) => Verdict::drop(DropReason::NoNeighbour),
        }
    }

    fn decide(&self, core: &mut Core, packet: &Packet<'_>) -> Result<Decided, End> {
        let found = self.find_out(core, packet)?;
        let id = match found.connection {
            Some(id) => id,
            None if packet.headers.kind == Kind::Other => {
                found.facts.rules.iter().for_each(|rule| rule.count(1, packet.bytes as u64));
                return Ok(found.decided);
            }
            None => self.connect(core, packet, &found)?,
        };
        self.remember(core, id, packet, found)
    }

    /// Walks, as a reply, as a later packet, or as a first one.
    fn find_out(&self, core: &mut Core, packet: &Packet<'_>) -> Result<Found, End> {
        let scope = packet.scope();
        if let Some((id, way)) = core.connections.find(&scope) {
            if let Some(found) = self.find_known(core, packet, id, way)? {
                return Ok(found);
            }
            self.revoke(core, id);
        }
        core.counters.new += 1;
        let facts = Facts::first(core, packet)?;
        let (facts, egress) = core.journey(packet.port, facts, Way::Forward)?;
        Ok(found(core, packet, facts, egress, None, Way::Forward))
    }

    /// Walks for a connection that is known. `None` says that policy no longer allows it as it is.
    fn find_known(&self, core: &mut Core, packet: &Packet<'_>, id: ConnectionId, way: Way) -> Result<Option<Found>, End> {
        core.counters.connection += 1;
        if !self.is_still_allowed(core, id) {
            return Ok(None);
        }
        let Some(connection) = core.connections.get(id) else { return Ok(None) };
        let memory = connection.memory;
        let (reply_scope, untranslated) = (connection.reply.scope, connection.forward.scope.id.reverse());
        let mut facts = Facts::first(core, packet)?;
        facts.memory = memory;
        if way == Way::Reply {
            facts.subject.id = untranslated;
            facts.returning(core, id);
        }
        let (facts, egress) = core.journey(packet.port, facts, way)?;
        // A connection whose packets now go elsewhere, or under another name, is not the same one any more.
        if way == Way::Forward && reply_of(&facts, &egress) != reply_scope {
            return Ok(None);
        }
        Ok(Some(found(core, packet, facts, egress, Some(id), way)))
    }

    /// Whether the first packet of a connection would still be allowed, and translated the same.
    fn is_still_allowed(&self, core: &mut Core, id: ConnectionId) -> bool {
        let Some(connection) = core.connections.get(id) else { return false };
        let current = connection.ports.map(|port| self.generation(port));
        if connection.generations == current {
            return true;
        }
        let (reply_scope, origin, facts) = (connection.reply.scope, connection.forward.scope.port, Facts::again(connection));
        core.counters.resimulated += 1;
        let facts = facts.and_then(|facts| facts.entering(core, origin));
        let Ok((facts, egress)) = facts.and_then(|facts| core.journey(origin, facts, Way::Forward)) else {
            return false;
        };
        if reply_of(&facts, &egress) != reply_scope || facts.memory != core.connections.get(id).map_or(facts.memory, |c| c.memory) {
            return false;
        }
        if let Some(connection) = core.connections.get_mut(id) {
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
        if reply != forward && core.connections.find(&reply).is_some() {
            core.give_back_new(found);
            return Err(End::drop(DropReason::NoNatPorts));
        }
        if !core.connections.has_share(packet.port) {
            self.make_room(core, packet).inspect_err(|_| core.give_back_new(found))?;
        }
        let ports = [packet.port, found.decided.egress.port];
        let Headers { source_mac, destination_mac, ether_type, .. } = *packet.headers;
        core.counters.connections_made += 1;
        Ok(core.connections.insert(Connection {
            forward: Side::new(forward),
            reply: Side::new(reply),
            source_mac,
            destination_mac,
            ether_type,
            encapsulation: packet.encapsulation.copied(),
            domain: found.facts.domain,
            routed: found.facts.routed,
            memory: found.facts.memory,
            ports,
            generations: ports.map(|port| self.generation(port)),
            made: packet.now,
        }))
    }

    /// Ends a connection of the port that nobody would miss, or says that there is none.
    fn make_room(&self, core: &mut Core, packet: &Packet<'_>) -> Result<(), End> {
        let (timeouts, now) = (core.timeouts, packet.now);
        let is_over = |connection: &Connection| {
            let flags = (connection.forward.seen.tcp_flags, connection.reply.seen.tcp_flags);
            let idle = timeouts.idle(connection.forward.scope.id.protocol, flags.0, flags.1, connection.is_answered());
            !connection.is_answered() || now.since(connection.last_seen()) >= idle
        };
        let victim = core.connections.expendable(packet.port, is_over).ok_or(End::drop(DropReason::NoFlowResources))?;
        core.counters.connections_evicted += 1;
        core.end(victim, &self.flows);
        Ok(())
    }

    /// Counts the packet for its connection, and puts its flow into the unified flow table.
    fn remember(&self, core: &mut Core, id: ConnectionId, packet: &Packet<'_>, found: Found) -> Result<Decided, End> {
        let Found { facts, decided, way, .. } = found;
        let Some(connection) = core.connections.get_mut(id) else {
            return Err(End::drop(DropReason::NoFlowResources));
        };
        let side = connection.side(way);
        // What the slot has counted belongs to the rules it was counted under.
        if let Some(slot) = side.slot {
            side.collect(&self.flows.seen(slot));
        }
        side.rules = facts.rules;
        side.add(1, packet.bytes as u64, packet.now, packet.headers.tcp_flags);
        if is_cached(packet.headers) {
            self.cache(core, id, packet, &decided, way);
        }
        Ok(decided)
    }

    fn cache(&self, core: &mut Core, id: ConnectionId, packet: &Packet<'_>, decided: &Decided, way: Way) {
        let key = FlowKey::new(packet.port, packet.encapsulation.map_or(0, |outer| outer.vni), packet.headers);
        let (slot, displaced) = self.flows.place(&key);
        let before = self.flows.get(slot);
        if displaced {
            core.counters.flows_displaced += 1;
            core.displace(before.connection, slot, &self.flows);
        }
        let entry = Entry {
            key,
            to: decided.egress.port,
            rule: decided.rule,
            connection: id,
            reply: way == Way::Reply,
            mtu: decided.mtu,
            generations: [self.generation(packet.port), self.generation(decided.egress.port)],
            transposition: decided.transposition,
            encapsulation: decided.egress.encapsulation,
        };
        self.flows.write(slot, &entry, packet.now);
        if let Some(connection) = core.connections.get_mut(id) {
            let side = connection.side(way);
            let old = side.slot.replace(slot);
            side.collected = Default::default();
            // The flow was known with other frame addresses; those packets walk again.
            if let Some(old) = old.filter(|old| *old != slot)
                && self.flows.get(old).connection == id
            {
                self.flows.erase(old);
            }
        }
    }
}

/// What a walk found, before it is remembered.
#[derive(Debug)]
struct Found {
    facts: Facts,
    decided: Decided,
    connection: Option<ConnectionId>,
    way: Way,
}

fn found(core: &Core, packet: &Packet<'_>, facts: Facts, egress: Egress, connection: Option<ConnectionId>, way: Way) -> Found {
    let after = Shape { id: facts.subject.id, source_mac: facts.subject.source_mac, destination_mac: facts.subject.destination_mac };
    let tier = if connection.is_some() { Tier::Connection } else { Tier::New };
    let mtu = core.port(egress.port).map_or(u16::MAX, |port| port.spec.mtu);
    let decided = Decided { egress, transposition: Transposition::between(&packet.shape(), &after), rule: facts.decisive, tier, mtu };
    Found { facts, decided, connection, way }
}

/// What the answers to a packet look like when they arrive.
fn reply_of(facts: &Facts, egress: &Egress) -> Scope {
    Scope { port: egress.port, vni: egress.encapsulation.map_or(0, |outer| outer.vni), id: facts.subject.id.reverse() }
}

impl Core {
    /// The whole way of a packet: out of one port, through a domain, into another port.
    pub(super) fn journey(&mut self, port: PortId, mut facts: Facts, way: Way) -> Result<(Facts, Egress), End> {
        self.layers(port, Direction::Out, &mut facts, way)?;
        let egress = self.forward(&mut facts)?;
        self.leave(port, egress.port, &mut facts)?;
        self.layers(egress.port, Direction::In, &mut facts, way)?;
        Ok((facts, egress))
    }

    /// What holds for every frame that leaves by a port.
    fn leave(&self, from: PortId, to: PortId, facts: &mut Facts) -> Result<(), End> {
        let (Some(source), Some(target)) = (self.port(from), self.port(to)) else {
            return Err(End::Drop(DropReason::PortGone, facts.decisive));
        };
        if from == to && !source.spec.hairpin && target.spec.kind != PortKind::Tunnel {
            return Err(End::Drop(DropReason::SamePort, facts.decisive));
        }
        if source.spec.kind == PortKind::Tunnel && target.spec.kind == PortKind::Tunnel {
            return Err(End::Drop(DropReason::SplitHorizon, facts.decisive));
        }
        if target.spec.kind == PortKind::Uplink
            && let Some(mac) = source.spec.hidden_behind
        {
            facts.subject.source_mac = mac;
        }
        Ok(())
    }

    /// Gives back what a walk took that is not going to be remembered.
    fn give_back_new(&mut self, found: &Found) {
        if found.connection.is_none()
            && let Some(lease) = &found.facts.memory.lease
            && let Some(pool) = self.pools.get_mut(&lease.pool)
        {
            pool.give_back(lease);
        }
    }

    /// A flow leaves the unified flow table; its connection stays.
    fn displace(&mut self, id: ConnectionId, slot: u32, flows: &crate::flow::table::Table) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        for side in [&mut connection.forward, &mut connection.reply] {
            if side.slot == Some(slot) {
                side.collect(&flows.seen(slot));
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
        let pieces = |id: u32| Pieces {
            port,
            vni: encapsulation.map_or(0, |outer| outer.vni),
            source: headers.id.source,
            destination: headers.id.destination,
            protocol: headers.id.protocol,
            id,
        };
        match headers.fragment {
            Fragment::Whole => Ok(()),
            Fragment::First { id } => match self.fragments.first(pieces(id), headers.id, now) {
                true => Ok(()),
                false => Err(End::drop(DropReason::NoFlowResources)),
            },
            Fragment::Later { id, .. } => {
                headers.id = self.fragments.later(&pieces(id)).ok_or(End::drop(DropReason::FragmentWithoutFirst))?;
                Ok(())
            }
        }
    }
}
