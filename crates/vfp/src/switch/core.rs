//! What the slow path needs: one lock, taken for packets that are not in the unified flow table.

use foldhash::HashMap;
use std::sync::Arc;

use wire::number::protocol;

use super::{Flows, Limits};
use crate::counters::SwitchCounters;
use crate::domain::{Domain, DomainId};
use crate::flow::affinity::Affinities;
use crate::flow::connection::{Connection, ConnectionId, Connections, Way};
use crate::flow::expiry::{TcpState, Timeouts};
use crate::fragment::Fragments;
use crate::layer::Program;
use crate::nat::{CLASH_PORTS, CLASHES, NatPool, NatPoolSpec, PoolId};
use crate::port::{PortId, PortSpec};
use crate::rule::Registry;
use crate::table::{SharedTable, TableId};
use crate::time::Instant;
use crate::underlay::{Underlay, UnderlayId};

/// How many clients of services are remembered at most. All are looked at when a sweep has come around, so there is an end.
const AFFINITIES: usize = 65_536;

/// A port in force.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) spec: PortSpec,
    pub(crate) program: Arc<Program>,
}

/// Everything but the unified flow table.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) ports: Vec<Option<Port>>,
    pub(crate) domains: HashMap<DomainId, Domain>,
    pub(crate) underlays: HashMap<UnderlayId, Underlay>,
    pub(crate) pools: HashMap<PoolId, NatPool>,
    pub(crate) tables: HashMap<TableId, SharedTable>,
    pub(crate) registry: Registry,
    pub(crate) connections: Connections,
    pub(crate) affinities: Affinities,
    pub(crate) fragments: Fragments,
    pub(crate) timeouts: Timeouts,
    pub(crate) counters: SwitchCounters,
    pub(crate) limits: Limits,
    pub(crate) seed: u64,
    /// The last number given to a domain, underlay, pool or table.
    pub(crate) last_number: u32,
    /// Where the next sweep goes on.
    pub(crate) swept: ConnectionId,
}

impl Core {
    pub(crate) fn new(limits: Limits, timeouts: Timeouts, seed: u64) -> Self {
        Self {
            ports: Vec::new(),
            domains: HashMap::default(),
            underlays: HashMap::default(),
            pools: HashMap::from_iter([(CLASHES, NatPool::new(NatPoolSpec { ports: CLASH_PORTS }))]),
            tables: HashMap::default(),
            registry: Registry::default(),
            connections: Connections::new(limits.connections, seed),
            affinities: Affinities::new(limits.connections.min(AFFINITIES), seed),
            fragments: Fragments::default(),
            timeouts,
            counters: SwitchCounters::default(),
            limits,
            seed,
            last_number: 0,
            swept: 0,
        }
    }

    pub(crate) fn port(&self, id: PortId) -> Option<&Port> {
        self.ports.get(id.0 as usize)?.as_ref()
    }

    /// Whether nobody believes the NIC of a port that it is a router.
    pub(crate) fn is_no_router(&self, id: PortId) -> bool {
        self.port(id).is_some_and(|port| port.spec.router_guard)
    }

    /// Ends a connection: its flows leave the table, and what it had is given back.
    pub(crate) fn end(&mut self, id: ConnectionId, flows: &Flows) {
        self.collect(id, flows);
        let Some(connection) = self.connections.remove(id) else { return };
        for slot in [connection.forward.slot, connection.reply.slot].into_iter().flatten() {
            if flows.owner(slot) == id {
                flows.erase(slot);
            }
        }
        if let Some(lease) = &connection.memory.lease
            && let Some(pool) = self.pools.get_mut(&lease.pool)
        {
            pool.give_back(lease);
        }
        // Where a node sent its packets on, that is over too: answers that come past the node have to be judged again.
        if let Some(carrier) = self.carrier(&connection) {
            self.end(carrier, flows);
        }
    }

    /// The connection by which a node sends on the packets of one as they leave, and that has brought answers to it.
    fn carrier(&self, connection: &Connection) -> Option<ConnectionId> {
        if !connection.answered_past {
            return None;
        }
        let (id, way) = self.connections.find(&connection.onwards())?;
        let is_plain = |carrier: &Connection| carrier.reply.scope.id == carrier.forward.scope.id.reverse();
        (way == Way::Forward && self.connections.get(id).is_some_and(is_plain)).then_some(id)
    }

    /// Brings what the fast path has counted into the connection, and into the one that carries its answers.
    pub(crate) fn collect_all(&mut self, id: ConnectionId, flows: &Flows) {
        self.collect(id, flows);
        if let Some(carrier) = self.connections.get(id).and_then(|connection| self.carrier(connection)) {
            self.collect(carrier, flows);
        }
    }

    /// Brings what the fast path has counted into the connection.
    pub(crate) fn collect(&mut self, id: ConnectionId, flows: &Flows) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        self.counters.unified += flows.collect(&mut connection.forward) + flows.collect(&mut connection.reply);
    }

    /// Whether a connection is over, by all that is known: what forwards it elsewhere is asked to stop first, and goes on if it has moved on
    /// in the meantime. Who is asked only could let it begin again before it is forgotten here.
    pub(crate) fn is_over(&mut self, id: ConnectionId, flows: &Flows, judge: impl Fn(&Self, &Connection) -> bool) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        self.counters.unified += flows.reclaim(&mut connection.forward) + flows.reclaim(&mut connection.reply);
        let is_over = self.connections.get(id).is_some_and(|connection| judge(self, connection));
        if !is_over && let Some(connection) = self.connections.get(id) {
            [&connection.forward, &connection.reply].into_iter().for_each(|side| flows.release(side));
        }
        is_over
    }

    /// Whether a connection has been idle for as long as it may.
    pub(crate) fn is_expired(&self, connection: &Connection, now: Instant) -> bool {
        let carrier = self.carrier(connection).and_then(|id| self.connections.get(id));
        let (initiator, responder) = tcp_flags(connection, carrier);
        let idle = self.timeouts.idle(connection.forward.scope.id.protocol, initiator, responder, connection.is_answered());
        let last_seen = carrier.map_or(connection.last_seen(), |carrier| carrier.last_seen().max(connection.last_seen()));
        now.since(last_seen) >= idle
    }

    /// Whether a connection can make room for another of its port: it was never answered, or both ends are done with it. A closed one is
    /// remembered for its last packets only, so that a client of many short connections has as many as it likes.
    pub(crate) fn is_expendable(&self, connection: &Connection, now: Instant) -> bool {
        if !connection.is_answered() || self.is_expired(connection, now) {
            return true;
        }
        let carrier = self.carrier(connection).and_then(|id| self.connections.get(id));
        let (initiator, responder) = tcp_flags(connection, carrier);
        connection.forward.scope.id.protocol == protocol::TCP && TcpState::from_flags(initiator, responder) == TcpState::Closed
    }
}

/// All flags that the initiator and the other side have sent; the latter perhaps by the connection that carries the answers.
fn tcp_flags(connection: &Connection, carrier: Option<&Connection>) -> (u8, u8) {
    let carried = carrier.map_or(0, |carrier| carrier.reply.seen.tcp_flags);
    (connection.forward.seen.tcp_flags, connection.reply.seen.tcp_flags | carried)
}
