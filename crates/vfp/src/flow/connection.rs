//! The connection table: both directions of a flow together, and what stateful layers remember about them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
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
    by_scope: HashMap<Scope, (ConnectionId, Way), FixedState>,
    /// The connections of each port, oldest first; may name some that are gone.
    by_owner: HashMap<PortId, Owned>,
    capacity: usize,
    count: usize,
}

#[derive(Debug, Default)]
struct Owned {
    count: usize,
    oldest: VecDeque<ConnectionId>,
}

/// How many of a port's connections are looked at to find one that can make room.
const LOOKED_AT: usize = 32;

impl Connections {
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_scope: HashMap::with_hasher(FixedState::with_seed(seed)),
            by_owner: HashMap::new(),
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
        self.by_scope.get(scope).copied()
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

    /// A connection of the port that can make room: the oldest one looked at that was never answered, or is over.
    pub(crate) fn expendable(&mut self, port: PortId, is_over: impl Fn(&Connection) -> bool) -> Option<ConnectionId> {
        let owned = self.by_owner.get_mut(&port)?;
        for _ in 0..LOOKED_AT.min(owned.oldest.len()) {
            let id = owned.oldest.pop_front()?;
            let Some(connection) = self.slots.get(id as usize).and_then(Option::as_ref) else { continue };
            if connection.owner() != port {
                continue;
            }
            owned.oldest.push_back(id);
            if is_over(connection) {
                return Some(id);
            }
        }
        None
    }

    /// Adds a connection. Both of its scopes must be free, and the caller has made sure of the port's share.
    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let id = self.free.pop().unwrap_or(self.slots.len() as ConnectionId);
        self.by_scope.insert(connection.forward.scope, (id, Way::Forward));
        // A packet that is its own answer, such as one to the sender itself, has one direction only.
        self.by_scope.entry(connection.reply.scope).or_insert((id, Way::Reply));
        let owned = self.by_owner.entry(connection.owner()).or_default();
        owned.count += 1;
        owned.oldest.push_back(id);
        self.count += 1;
        match self.slots.get_mut(id as usize) {
            Some(slot) => *slot = Some(connection),
            None => self.slots.push(Some(connection)),
        }
        id
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.slots.get_mut(id as usize)?.take()?;
        for scope in [&connection.forward.scope, &connection.reply.scope] {
            if self.by_scope.get(scope).is_some_and(|(other, _)| *other == id) {
                self.by_scope.remove(scope);
            }
        }
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
