//! The switch as people see it: ports, rules, flows, counters, as they are now.

use wire::{Encapsulation, FlowId, MacAddress};

use super::Switch;
use crate::counters::{PortCounters, SwitchCounters};
use crate::flow::connection::{Connection, Way};
use crate::flow::expiry::TcpState;
use crate::nat::{NatPool, PoolId};
use crate::port::{PortId, PortKind};
use crate::rule::{Place, RuleId, RuleSpec};
use crate::time::Instant;
use wire::number::protocol;

/// A port as it is.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Its number.
    pub id: PortId,
    /// What it is known by.
    pub name: String,
    /// What is behind it.
    pub kind: PortKind,
    /// The address of its NIC.
    pub mac: MacAddress,
    /// The IP addresses of its NIC.
    pub addresses: Vec<wire::Ip>,
    /// The largest IP packet that may go to its NIC.
    pub mtu: u16,
    /// The domain it is in.
    pub domain: String,
    /// The generation of its program.
    pub generation: u32,
    /// How many connections it has begun.
    pub connections: usize,
    /// What passed it.
    pub counters: PortCounters,
}

/// A rule as it is.
#[derive(Clone, Debug)]
pub struct RuleView {
    /// Its number.
    pub id: RuleId,
    /// Where it stands.
    pub place: Place,
    /// What it says.
    pub spec: RuleSpec,
    /// Packets it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One direction of a connection as it is.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// The connection it belongs to.
    pub connection: u32,
    /// Whether it answers.
    pub reply: bool,
    /// The port its packets come from.
    pub from: PortId,
    /// The port they go to.
    pub to: PortId,
    /// The virtual network they come from; 0 for none.
    pub vni: u32,
    /// Its packets as they come.
    pub id: FlowId,
    /// Its packets as they go.
    pub translated: FlowId,
    /// Their outer headers.
    pub encapsulation: Option<Encapsulation>,
    /// Whether it is in the unified flow table, and up to date.
    pub unified: bool,
    /// Whether it is forwarded elsewhere too, and up to date there.
    pub offloaded: bool,
    /// How far it is, for TCP.
    pub tcp: Option<TcpState>,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last of them was seen.
    pub last_seen: Instant,
    /// The rules that they meet, in order.
    pub rules: Vec<Place>,
}

impl Switch {
    /// Where a rule stands, while it is in force.
    pub fn place(&self, id: RuleId) -> Option<Place> {
        self.core().registry.get(id).map(|rule| rule.place.clone())
    }

    /// All ports.
    pub fn ports(&self) -> Vec<PortView> {
        self.collect_all();
        let core = self.core();
        let view = |(number, port): (usize, &Option<super::core::Port>)| {
            let spec = &port.as_ref()?.spec;
            let id = PortId(number as u32);
            Some(PortView {
                id,
                name: spec.name.clone(),
                kind: spec.kind,
                mac: spec.mac,
                addresses: spec.addresses.clone(),
                mtu: spec.mtu,
                domain: core.domains.get(&spec.domain).map(|domain| domain.spec.name.clone()).unwrap_or_default(),
                generation: self.generation(id),
                connections: core.connections.owned(id),
                counters: self.flows.cells[number].counters.read(),
            })
        };
        core.ports.iter().enumerate().filter_map(view).collect()
    }

    /// The counters of a port.
    pub fn port_counters(&self, id: PortId) -> Option<PortCounters> {
        self.collect_all();
        Some(self.flows.cells.get(id.0 as usize)?.counters.read())
    }

    /// All rules, with what they have counted until now.
    pub fn rules(&self) -> Vec<RuleView> {
        self.collect_all();
        let core = self.core();
        let mut rules: Vec<RuleView> = core
            .registry
            .iter()
            .map(|rule| {
                let (packets, bytes) = rule.counted();
                RuleView { id: rule.id, place: rule.place.clone(), spec: rule.spec.clone(), packets, bytes }
            })
            .collect();
        rules.sort_by_key(|rule| rule.id);
        rules
    }

    /// Both directions of all connections.
    pub fn flows(&self) -> Vec<FlowView> {
        self.collect_all();
        let core = self.core();
        let both = |(id, connection)| [Way::Forward, Way::Reply].map(|way| self.flow(id, connection, way));
        core.connections.iter().flat_map(both).collect()
    }

    fn flow(&self, id: u32, connection: &Connection, way: Way) -> FlowView {
        let (side, other, to) = match way {
            Way::Forward => (&connection.forward, &connection.reply, connection.ports[1]),
            Way::Reply => (&connection.reply, &connection.forward, connection.ports[0]),
        };
        let entry = side.slot.map(|slot| self.flows.get(slot)).filter(|entry| entry.connection == id);
        let current = [self.generation(side.scope.port), self.generation(to)];
        let is_tcp = side.scope.id.protocol == protocol::TCP;
        let flags = (connection.forward.seen.tcp_flags, connection.reply.seen.tcp_flags);
        FlowView {
            connection: id,
            reply: way == Way::Reply,
            from: side.scope.port,
            to,
            vni: side.scope.vni,
            id: side.scope.id,
            translated: other.scope.id.reverse(),
            encapsulation: entry.and_then(|entry| entry.encapsulation),
            unified: entry.is_some_and(|entry| entry.generations == current),
            offloaded: entry.is_some_and(|entry| entry.offloaded && entry.generations == current),
            tcp: is_tcp.then(|| TcpState::from_flags(flags.0, flags.1)),
            packets: side.seen.packets,
            bytes: side.seen.bytes,
            last_seen: side.seen.at,
            rules: side.rules.iter().map(|rule| rule.place.clone()).collect(),
        }
    }

    /// What the switch as a whole has counted.
    pub fn counters(&self) -> SwitchCounters {
        self.collect_all();
        self.core().counters
    }

    /// How many connections there are, and how many there can be.
    pub fn connection_usage(&self) -> (usize, usize) {
        let core = self.core();
        (core.connections.len(), core.connections.capacity())
    }

    /// How many clients of services are remembered with their backends, and how many can be.
    pub fn affinity_usage(&self) -> (usize, usize) {
        let core = self.core();
        (core.affinities.len(), core.affinities.capacity())
    }

    /// How many ports a pool has given out, over all destinations.
    pub fn pool_usage(&self, id: PoolId) -> Option<usize> {
        self.core().pools.get(&id).map(NatPool::taken)
    }

    fn collect_all(&self) {
        let core = &mut *self.core();
        for id in core.connections.numbers() {
            core.collect(id, &self.flows);
        }
    }
}
