//! The connection table: both directions of a flow together, and what stateful layers remember about them.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use wire::{Encapsulation, FlowId, Ip, MacAddress};

use super::table::{Seen, SlotId};
use crate::domain::DomainId;
use crate::nat::Lease;
use crate::port::PortId;
use crate::rule::Rule;
use crate::service::Backend;
use crate::time::Instant;
use crate::underlay::UnderlayId;

/// The number of a connection.
pub(crate) type ConnectionId = u32;

/// Where packets of one direction come from, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) port: PortId,
    pub(crate) vni: u32,
    pub(crate) id: FlowId,
}

impl Scope {
    /// What goes the other way at the same place.
    pub(crate) fn reverse(&self) -> Self {
        Self { id: self.id.reverse(), ..*self }
    }
}

/// Which direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As the first packet went.
    Forward,
    /// The answers.
    Reply,
}

impl Way {
    /// The opposite.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Forward => Self::Reply,
            Self::Reply => Self::Forward,
        }
    }
}

/// What stateful layers decided at the first packet, to be decided the same way again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) lease: Option<Lease>,
    pub(crate) backend: Option<Backend>,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) scope: Scope,
    /// Its slot in the unified flow table.
    pub(crate) slot: Option<SlotId>,
    /// The rules that its packets meet, to be counted with them.
    pub(crate) rules: Vec<Arc<Rule>>,
    /// All its packets, as far as they have been collected from the slot.
    pub(crate) seen: Seen,
    /// What of the slot's own counters is already in `seen`.
    pub(crate) collected: Seen,
}

/// Both directions, and what is remembered.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) forward: Side,
    pub(crate) reply: Side,
    /// The frame addresses of the first packet.
    pub(crate) source_mac: MacAddress,
    pub(crate) destination_mac: MacAddress,
    /// What the first packet carried.
    pub(crate) ether_type: u16,
    /// The outer headers it came with.
    pub(crate) encapsulation: Option<Encapsulation>,
    /// The domain that forwarded it.
    pub(crate) domain: DomainId,
    /// The underlay that routed it, if one did.
    pub(crate) routed: Option<UnderlayId>,
    /// The address it was forwarded to, if that is not its destination.
    pub(crate) towards: Option<Ip>,
    pub(crate) memory: Memory,
    /// The ports it came from and went to, with their generations when it was last found to be allowed.
    pub(crate) ports: [PortId; 2],
    pub(crate) generations: [u32; 2],
    /// Whether answers have come past the port it went to: that of a node, which sent its packets on as they left.
    pub(crate) answered_past: bool,
    pub(crate) made: Instant,
    /// When it was last asked what its packets have left.
    pub(crate) collected_at: Instant,
}

impl Side {
    pub(crate) fn new(scope: Scope) -> Self {
        Self { scope, slot: None, rules: Vec::new(), seen: Seen::default(), collected: Seen::default() }
    }

    /// Adds what the slot has counted since the last time, and answers how many packets and bytes that were.
    pub(crate) fn collect(&mut self, slot: &Seen) -> (u64, u64) {
        let packets = slot.packets.wrapping_sub(self.collected.packets);
        let bytes = slot.bytes.wrapping_sub(self.collected.bytes);
        self.add(packets, bytes, slot.at, slot.tcp_flags);
        self.collected = *slot;
        (packets, bytes)
    }

    /// Adds packets.
    pub(crate) fn add(&mut self, packets: u64, bytes: u64, at: Instant, tcp_flags: u8) {
        self.seen.packets += packets;
        self.seen.bytes += bytes;
        self.seen.tcp_flags |= tcp_flags;
        if packets > 0 {
            self.seen.at = self.seen.at.max(at);
            self.rules.iter().for_each(|rule| rule.count(packets, bytes));
        }
    }
}

impl Connection {
    pub(crate) fn side(&mut self, way: Way) -> &mut Side {
        match way {
            Way::Forward => &mut self.forward,
            Way::Reply => &mut self.reply,
        }
    }

    /// The port whose share it counts against.
    pub(crate) fn owner(&self) -> PortId {
        self.forward.scope.port
    }

    /// Whether it is translated and goes back to the port it came from.
    pub(crate) fn is_turned(&self) -> bool {
        self.forward.scope.port == self.reply.scope.port && self.reply.scope.id != self.forward.scope.id.reverse()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.reply.seen.packets > 0 || self.answered_past
    }

    /// Where its packets, as they leave, would be taken up by a node that routes them.
    pub(crate) fn onwards(&self) -> Scope {
        self.reply.scope.reverse()
    }

    pub(crate) fn last_seen(&self) -> Instant {
        self.forward.seen.at.max(self.reply.seen.at).max(self.made)
    }
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: Vec<Option<Connection>>,
    free: Vec<ConnectionId>,
    by_scope: Index,
    /// The connections of each port, oldest first; may name some that are gone.
    by_owner: HashMap<PortId, Owned, FixedState>,
    capacity: usize,
    count: usize,
}

/// Directions by where their packets come from. It holds their names only, and what they stand for is read in the connections: so it
/// is small enough for a processor's caches, and a packet that belongs to no connection is found to do so there.
#[derive(Debug)]
struct Index {
    known: HashTable<Name>,
    hasher: FixedState,
}

/// A direction of a connection as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name(u32);

impl Name {
    const fn new(id: ConnectionId, way: Way) -> Self {
        Self(id << 1 | matches!(way, Way::Reply) as u32)
    }

    const fn parts(self) -> (ConnectionId, Way) {
        (self.0 >> 1, if self.0 & 1 == 0 { Way::Forward } else { Way::Reply })
    }

    fn scope(self, connections: &[Option<Connection>]) -> Option<&Scope> {
        let (id, way) = self.parts();
        let connection = connections.get(id as usize)?.as_ref()?;
        Some(match way {
            Way::Forward => &connection.forward.scope,
            Way::Reply => &connection.reply.scope,
        })
    }
}

impl Index {
    fn get(&self, connections: &[Option<Connection>], scope: &Scope) -> Option<(ConnectionId, Way)> {
        let found = self.known.find(self.hasher.hash_one(scope), |name| name.scope(connections) == Some(scope));
        found.map(|name| name.parts())
    }

    /// Adds a direction, unless there is one like it.
    fn put(&mut self, connections: &[Option<Connection>], id: ConnectionId, way: Way) {
        let name = Name::new(id, way);
        let Some(scope) = name.scope(connections) else { return };
        let hash = |name: &Name| name.scope(connections).map_or(0, |scope| self.hasher.hash_one(scope));
        let is_same = |other: &Name| other.scope(connections) == Some(scope);
        self.known.entry(self.hasher.hash_one(scope), is_same, hash).or_insert(name);
    }

    fn remove(&mut self, connections: &[Option<Connection>], id: ConnectionId, way: Way) {
        let name = Name::new(id, way);
        let Some(scope) = name.scope(connections) else { return };
        if let Ok(found) = self.known.find_entry(self.hasher.hash_one(scope), |other| *other == name) {
            found.remove();
        }
    }
}

#[derive(Debug, Default)]
struct Owned {
    count: usize,
    oldest: VecDeque<ConnectionId>,
}

/// How many of a port's connections are looked at to find one that can make room.
pub(crate) const LOOKED_AT: usize = 32;

impl Connections {
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self {
            // As many as may come: those that never do cost nothing, and none has to be moved.
            slots: Vec::with_capacity(capacity),
            free: Vec::new(),
            by_scope: Index { known: HashTable::with_capacity(2 * capacity), hasher: FixedState::with_seed(seed) },
            by_owner: HashMap::with_hasher(FixedState::with_seed(seed)),
            capacity,
            count: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many connections a port has.
    pub(crate) fn owned(&self, port: PortId) -> usize {
        self.by_owner.get(&port).map_or(0, |owned| owned.count)
    }

    pub(crate) fn find(&self, scope: &Scope) -> Option<(ConnectionId, Way)> {
        self.by_scope.get(&self.slots, scope)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.slots.get(id as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// Whether a port may have one more: it has no more than it leaves to the others.
    pub(crate) fn has_share(&self, port: PortId) -> bool {
        self.owned(port) < self.capacity.saturating_sub(self.count)
    }

    /// The connection of the port to be looked at next for one that can make room: the oldest, then the next one, and around.
    pub(crate) fn next_owned(&mut self, port: PortId) -> Option<ConnectionId> {
        let owned = self.by_owner.get_mut(&port)?;
        loop {
            let id = owned.oldest.pop_front()?;
            // The queue names connections that are gone, and whose number another may have by now.
            if self.slots.get(id as usize).and_then(Option::as_ref).is_some_and(|connection| connection.owner() == port) {
                owned.oldest.push_back(id);
                return Some(id);
            }
        }
    }

    /// Adds a connection. Both of its scopes must be free, and the caller has made sure of the port's share.
    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let id = self.free.pop().unwrap_or(self.slots.len() as ConnectionId);
        let owned = self.by_owner.entry(connection.owner()).or_default();
        owned.count += 1;
        owned.oldest.push_back(id);
        self.count += 1;
        match self.slots.get_mut(id as usize) {
            Some(slot) => *slot = Some(connection),
            None => self.slots.push(Some(connection)),
        }
        self.by_scope.put(&self.slots, id, Way::Forward);
        // A packet that is its own answer, such as one to the sender itself, has one direction only.
        self.by_scope.put(&self.slots, id, Way::Reply);
        id
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        for way in [Way::Forward, Way::Reply] {
            self.by_scope.remove(&self.slots, id, way);
        }
        let connection = self.slots.get_mut(id as usize)?.take()?;
        self.count -= 1;
        self.free.push(id);
        self.disown(connection.owner());
        Some(connection)
    }

    fn disown(&mut self, port: PortId) {
        let Some(owned) = self.by_owner.get_mut(&port) else { return };
        owned.count -= 1;
        if owned.count == 0 {
            self.by_owner.remove(&port);
            return;
        }
        // The queue names connections that are gone; where those are the most, it is made anew.
        if owned.oldest.len() > 2 * owned.count + LOOKED_AT {
            let slots = &self.slots;
            let mut seen = std::collections::HashSet::new();
            let is_own = |id: &ConnectionId| slots.get(*id as usize).and_then(Option::as_ref).is_some_and(|c| c.owner() == port);
            owned.oldest.retain(|id| is_own(id) && seen.insert(*id));
        }
    }

    /// The numbers that are in use, or were.
    pub(crate) fn numbers(&self) -> std::ops::Range<ConnectionId> {
        0..self.slots.len() as ConnectionId
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.slots.iter().enumerate().filter_map(|(id, slot)| Some((id as ConnectionId, slot.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(port: u32, number: u32) -> Scope {
        let id = FlowId { source: Ip::v4(number), destination: Ip::v4(1), source_port: 1, destination_port: 2, protocol: 6 };
        Scope { port: PortId(port), vni: 0, id }
    }

    fn connection(number: u32) -> Connection {
        Connection {
            forward: Side::new(scope(1, number)),
            reply: Side::new(Scope { port: PortId(2), ..scope(1, number).reverse() }),
            source_mac: MacAddress::default(),
            destination_mac: MacAddress::default(),
            ether_type: 0x0800,
            encapsulation: None,
            domain: DomainId::default(),
            routed: None,
            towards: None,
            memory: Memory::default(),
            ports: [PortId(1), PortId(2)],
            generations: [0; 2],
            answered_past: false,
            made: Instant(0),
            collected_at: Instant(0),
        }
    }

    #[test]
    fn both_directions_are_found_while_the_index_grows_and_shrinks() {
        let mut connections = Connections::new(4, 7);
        for number in 0..5_000 {
            let made = connection(number);
            let (forward, reply) = (made.forward.scope, made.reply.scope);
            let id = connections.insert(made);
            assert_eq!(connections.find(&forward), Some((id, Way::Forward)));
            assert_eq!(connections.find(&reply), Some((id, Way::Reply)));
            if number % 3 != 0 {
                assert!(connections.remove(id).is_some());
                assert_eq!((connections.find(&forward), connections.find(&reply)), (None, None));
            }
        }
        for number in 0..5_000 {
            let is_there = connections.find(&scope(1, number)).is_some();
            assert_eq!(is_there, number % 3 == 0, "{number}");
        }
    }

    #[test]
    fn the_direction_of_another_stays_where_answers_look_like_it() {
        let mut connections = Connections::new(4, 7);
        let first = connections.insert(connection(1));
        let mut other = connection(2);
        other.reply.scope = scope(1, 1);
        let second = connections.insert(other);
        assert_eq!(connections.find(&scope(1, 1)), Some((first, Way::Forward)));
        connections.remove(second);
        assert_eq!(connections.find(&scope(1, 1)), Some((first, Way::Forward)));
    }
}
