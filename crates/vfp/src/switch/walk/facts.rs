//! What is known about a packet while it walks. Layers pass facts to each other, as themselves.

use std::sync::Arc;

use super::{End, Packet};
use crate::classify::Subject;
use crate::domain::DomainId;
use crate::flow::connection::{Connection, ConnectionId, Memory};
use crate::port::{PortId, PortKind};
use crate::rule::{Rule, RuleId};
use crate::switch::core::Core;
use crate::underlay::UnderlayId;
use crate::verdict::{DropReason, Egress};

/// A packet as the layers passed so far have made it.
#[derive(Debug)]
pub(in crate::switch) struct Facts {
    /// Its headers now.
    pub(in crate::switch) subject: Subject,
    /// What kind of port it comes from.
    pub(in crate::switch) from: PortKind,
    /// The domain that forwards it.
    pub(in crate::switch) domain: DomainId,
    /// The underlay that routes it instead, if a layer has said so.
    pub(in crate::switch) routed: Option<UnderlayId>,
    /// Where it must go because its connection came from there.
    pub(in crate::switch) back_to: Option<Egress>,
    /// What stateful layers have decided.
    pub(in crate::switch) memory: Memory,
    /// The rules that matched.
    pub(in crate::switch) rules: Vec<Arc<Rule>>,
    /// The last of them.
    pub(in crate::switch) decisive: RuleId,
}

impl Facts {
    /// A packet as it arrives.
    pub(in crate::switch) fn first(core: &Core, packet: &Packet<'_>) -> Result<Self, End> {
        let headers = packet.headers;
        let subject = Subject {
            id: headers.id,
            source_mac: headers.source_mac,
            destination_mac: headers.destination_mac,
            ether_type: headers.ether_type,
            vni: packet.encapsulation.map(|outer| outer.vni),
        };
        Self::of(subject).entering(core, packet.port)
    }

    /// The first packet of a connection once more.
    pub(super) fn again(connection: &Connection) -> Result<Self, End> {
        let subject = Subject {
            id: connection.forward.scope.id,
            source_mac: connection.source_mac,
            destination_mac: connection.destination_mac,
            ether_type: connection.ether_type,
            vni: connection.encapsulation.map(|outer| outer.vni),
        };
        Ok(Self { memory: connection.memory, ..Self::of(subject) })
    }

    fn of(subject: Subject) -> Self {
        Self {
            subject,
            from: PortKind::Nic,
            domain: DomainId::default(),
            routed: None,
            back_to: None,
            memory: Memory::default(),
            rules: Vec::new(),
            decisive: RuleId::NONE,
        }
    }

    pub(super) fn entering(self, core: &Core, port: PortId) -> Result<Self, End> {
        let port = core.port(port).ok_or(End::drop(DropReason::PortGone))?;
        Ok(Self { from: port.spec.kind, domain: port.spec.domain, ..self })
    }

    /// Makes it an answer within a connection: what was routed out comes back into the domain it left, and what came out of a
    /// tunnel goes back into it.
    pub(in crate::switch) fn returning(&mut self, core: &Core, id: ConnectionId) {
        let Some(connection) = core.connections.get(id) else { return };
        if connection.routed.is_some() {
            self.domain = connection.domain;
            self.from = PortKind::Uplink;
        }
        if let Some(outer) = connection.encapsulation {
            self.back_to = Some(Egress { port: connection.forward.scope.port, encapsulation: Some(outer) });
            self.subject.source_mac = connection.destination_mac;
            self.subject.destination_mac = connection.source_mac;
        }
    }

    /// Notes a rule that matched.
    pub(in crate::switch) fn matched(&mut self, rule: &Arc<Rule>) {
        self.decisive = rule.id;
        self.rules.push(rule.clone());
    }
}
