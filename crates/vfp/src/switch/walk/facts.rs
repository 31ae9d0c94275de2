//! What is known about a packet while it walks. Layers pass facts to each other, as themselves.

use std::sync::Arc;
use std::time::Duration;

use wire::{FlowId, Ip, Kind, MacAddress};

use super::{End, Packet};
use crate::classify::Subject;
use crate::domain::DomainId;
use crate::flow::affinity::Client;
use crate::flow::connection::{Connection, ConnectionId, Memory};
use crate::group::Group;
use crate::offload::OffloadChoice;
use crate::port::{PortId, PortKind};
use crate::rule::{Rule, RuleId};
use crate::switch::core::Core;
use crate::time::Instant;
use crate::underlay::UnderlayId;
use crate::verdict::{DropReason, Egress};

/// Where a connection came from.
#[derive(Clone, Copy, Debug)]
pub(in crate::switch) struct Back {
    pub(in crate::switch) egress: Egress,
    pub(in crate::switch) source_mac: MacAddress,
    pub(in crate::switch) destination_mac: MacAddress,
}

/// How a service has chosen among its backends.
#[derive(Clone, Copy, Debug)]
pub(in crate::switch) struct Choice {
    /// What was asked for.
    pub(in crate::switch) asked: FlowId,
    pub(in crate::switch) of: OffloadChoice,
}

/// A packet as the layers passed so far have made it.
#[derive(Debug)]
pub(in crate::switch) struct Facts {
    /// Its headers now.
    pub(in crate::switch) subject: Subject,
    /// The node that it comes from by a tunnel.
    pub(in crate::switch) provider: Option<Ip>,
    /// What kind of port it comes from.
    pub(in crate::switch) from: PortKind,
    /// The domain that forwards it.
    pub(in crate::switch) domain: DomainId,
    /// The underlay that routes it instead, if a layer has said so.
    pub(in crate::switch) routed: Option<UnderlayId>,
    /// The address that it is forwarded to, if that is not its destination.
    pub(in crate::switch) towards: Option<Ip>,
    /// Where it must go because its connection came from there.
    pub(in crate::switch) back_to: Option<Back>,
    /// The connection it belongs to, if that is known.
    pub(in crate::switch) connection: Option<ConnectionId>,
    /// Whether it is neither IP nor a neighbour message.
    pub(in crate::switch) is_other: bool,
    /// Whether it is an ICMP error or a router's message, which have no identifier to translate and belong to no connection.
    pub(in crate::switch) has_no_name: bool,
    /// Whether its source was translated already.
    pub(in crate::switch) is_translated: bool,
    /// Whether that was done for a service.
    pub(in crate::switch) is_masqueraded: bool,
    /// Whether a service has given it a backend already.
    pub(in crate::switch) is_redirected: bool,
    /// Whether it may go back to the port it came from.
    pub(in crate::switch) may_turn: bool,
    /// What it becomes after the layers of the port it came from, because that undoes what its connection did.
    pub(in crate::switch) restored: Option<FlowId>,
    /// Whether something was decided for this connection alone, and not for all that differ in their source port only.
    pub(in crate::switch) is_particular: bool,
    /// Whether it has a backend that another connection of its name would not get.
    pub(in crate::switch) is_kept: bool,
    /// Which of a service's backends it got, where its ports decided that.
    pub(in crate::switch) choice: Option<Choice>,
    /// What it is to become if that can be, because its connection was there before it was known here.
    pub(in crate::switch) wish: Option<FlowId>,
    /// The client that is to keep its backend, and for how long.
    pub(in crate::switch) loyal: Option<(Client, Duration)>,
    /// When it came.
    pub(in crate::switch) now: Instant,
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
        let (is_other, has_no_name) = (headers.kind == Kind::Other, matches!(headers.kind, Kind::IcmpError | Kind::Router));
        let provider = packet.encapsulation.map(|outer| outer.remote);
        Self { is_other, has_no_name, provider, now: packet.now, ..Self::of(subject) }.entering(core, packet.port)
    }

    /// The first packet of a connection once more.
    pub(super) fn again(id: ConnectionId, connection: &Connection) -> Self {
        let subject = Subject {
            id: connection.forward.scope.id,
            source_mac: connection.source_mac,
            destination_mac: connection.destination_mac,
            ether_type: connection.ether_type,
            vni: connection.encapsulation.map(|outer| outer.vni),
        };
        let mut facts = Self { provider: connection.encapsulation.map(|outer| outer.remote), ..Self::of(subject) };
        facts.within(id, connection);
        facts
    }

    /// Makes it a packet of a connection, about which is decided as before.
    pub(super) fn within(&mut self, id: ConnectionId, connection: &Connection) {
        self.connection = Some(id);
        self.memory = connection.memory;
    }

    fn of(subject: Subject) -> Self {
        Self {
            subject,
            provider: None,
            from: PortKind::Nic,
            domain: DomainId::default(),
            routed: None,
            towards: None,
            back_to: None,
            connection: None,
            is_other: false,
            has_no_name: false,
            is_translated: false,
            is_masqueraded: false,
            is_redirected: false,
            may_turn: false,
            restored: None,
            is_particular: false,
            is_kept: false,
            choice: None,
            wish: None,
            loyal: None,
            now: Instant::default(),
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
    /// tunnel, or asked for a service from the wire, is answered there.
    pub(in crate::switch) fn returning(&mut self, core: &Core, id: ConnectionId) {
        let Some(connection) = core.connections.get(id) else { return };
        if connection.routed.is_some() {
            self.domain = connection.domain;
            self.from = PortKind::Uplink;
        }
        self.may_turn = connection.is_turned();
        let origin = connection.forward.scope.port;
        // A service is asked by routers of the wire, and nobody else could answer them in its name: the node would take such an
        // answer for its own packet coming back.
        let is_asked_from_wire =
            connection.memory.backend.is_some() && core.port(origin).is_some_and(|port| port.spec.kind == PortKind::Uplink);
        if connection.encapsulation.is_some() || is_asked_from_wire {
            self.back_to = Some(Back {
                egress: Egress { port: origin, encapsulation: connection.encapsulation },
                source_mac: connection.destination_mac,
                destination_mac: connection.source_mac,
            });
        }
    }

    /// Makes it go the way that packets of a connection go.
    pub(in crate::switch) fn following(&mut self, core: &Core, id: ConnectionId) {
        let Some(connection) = core.connections.get(id) else { return };
        (self.routed, self.towards) = (connection.routed, connection.towards);
        self.may_turn = connection.is_turned();
    }

    /// The address that it is forwarded to.
    pub(super) fn goal(&self) -> Ip {
        self.towards.unwrap_or(self.subject.id.destination)
    }

    /// The rule of a group that decides about it as it is.
    pub(super) fn find_in(&mut self, group: &Group) -> Option<Arc<Rule>> {
        let subject = self.subject;
        self.find(group, &subject)
    }

    /// The rule of a group that says where it goes.
    pub(super) fn find_way(&mut self, group: &Group) -> Option<Arc<Rule>> {
        let mut subject = self.subject;
        subject.id.destination = self.goal();
        self.find(group, &subject)
    }

    fn find(&mut self, group: &Group, subject: &Subject) -> Option<Arc<Rule>> {
        self.is_particular |= group.asks_source_port(subject);
        let rules = &mut self.rules;
        let rule = group.find(subject, &mut |rule| rules.push(rule.clone()))?;
        self.matched(rule);
        Some(rule.clone())
    }

    /// Counts the packet for all rules that matched.
    pub(in crate::switch) fn count(&self, bytes: usize) {
        self.rules.iter().for_each(|rule| rule.count(1, bytes as u64));
    }

    /// Notes a rule that matched.
    pub(in crate::switch) fn matched(&mut self, rule: &Arc<Rule>) {
        self.decisive = rule.id;
        self.rules.push(rule.clone());
    }
}
