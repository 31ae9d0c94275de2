//! What rules do to a packet.

use std::sync::Arc;

use wire::FlowId;

use super::End;
use super::facts::Facts;
use super::source::{Translation, is_translatable};
use crate::action::Action;
use crate::flow::connection::Way;
use crate::layer::Layer;
use crate::port::{Direction, PortId, PortKind};
use crate::rule::Rule;
use crate::switch::core::Core;
use crate::underlay::{Routed, UnderlayId};
use crate::verdict::{DropReason, Egress};

/// Whether the rest of a layer still has a say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Layer,
    Group,
}

impl Core {
    /// The layers of a port in one direction. Stateful ones have no say about answers.
    pub(in crate::switch) fn layers(&mut self, port: PortId, direction: Direction, facts: &mut Facts, way: Way) -> Result<(), End> {
        let Some(program) = self.port(port).map(|port| port.program.clone()) else {
            return Err(End::drop(DropReason::PortGone));
        };
        for layer in program.layers(direction) {
            if layer.stateful && way == Way::Reply {
                continue;
            }
            self.layer(layer, port, direction, facts)?;
        }
        Ok(())
    }

    fn layer(&mut self, layer: &Layer, port: PortId, direction: Direction, facts: &mut Facts) -> Result<(), End> {
        for group in layer.groups(direction) {
            let Some(rule) = facts.find_in(group) else { continue };
            if self.act(&rule, port, facts)? == Passed::Layer {
                return Ok(());
            }
        }
        for table in layer.tables(direction) {
            let Some(rule) = self.tables.get(table).and_then(|table| facts.find_in(&table.group)) else { continue };
            if self.act(&rule, port, facts)? == Passed::Layer {
                return Ok(());
            }
        }
        Ok(())
    }

    fn act(&mut self, rule: &Arc<Rule>, port: PortId, facts: &mut Facts) -> Result<Passed, End> {
        match &rule.spec.action {
            Action::Allow => {}
            Action::Pass | Action::Count => return Ok(Passed::Group),
            Action::Block(reason) => return Err(End::Drop(*reason, rule.id)),
            Action::Modify { source_mac, destination_mac, source, destination, source_port, destination_port } => {
                let subject = &mut facts.subject;
                subject.source_mac = source_mac.unwrap_or(subject.source_mac);
                subject.destination_mac = destination_mac.unwrap_or(subject.destination_mac);
                let id = FlowId {
                    source: source.unwrap_or(subject.id.source),
                    destination: destination.unwrap_or(subject.id.destination),
                    source_port: source_port.unwrap_or(subject.id.source_port),
                    destination_port: destination_port.unwrap_or(subject.id.destination_port),
                    ..subject.id
                };
                if !is_translatable(&subject.id, &id) {
                    return Err(End::Drop(DropReason::UnsupportedProtocol, rule.id));
                }
                subject.id = id;
            }
            Action::SourceNat { pool, address, underlay, most } => {
                self.source_nat(facts, port, Translation { pool: *pool, address: *address, most: *most }, *underlay)
                    .map_err(|reason| End::Drop(reason, rule.id))?;
            }
            Action::Redirect(service) => self.redirect(facts, port, service).map_err(|reason| match reason {
                DropReason::NoBackend => End::Refuse(reason, rule.id),
                _ => End::Drop(reason, rule.id),
            })?,
            Action::Refuse => return Err(End::Refuse(DropReason::Refused, rule.id)),
            Action::Pop { domain } => {
                facts.domain = *domain;
                self.check_provider(facts).map_err(|reason| End::Drop(reason, rule.id))?;
            }
            Action::Route(underlay) => facts.routed = Some(*underlay),
            // These say where a frame goes, which only a domain can.
            Action::Forward { .. } | Action::Push { .. } | Action::Answer(_) | Action::Flood => {
                return Err(End::Drop(DropReason::RuleLoop, rule.id));
            }
        }
        Ok(Passed::Layer)
    }

    /// What a tunnel has brought must be from a node of its virtual network, with a source that this node can have: no address of
    /// ours, and none behind another node. Addresses that the rules know no place for may come from anywhere: those of other nodes
    /// themselves, and of the outside.
    fn check_provider(&self, facts: &Facts) -> Result<(), DropReason> {
        let Some(provider) = facts.provider else { return Ok(()) };
        let domain = self.domains.get(&facts.domain).ok_or(DropReason::NoRoute)?;
        if !domain.knows(provider) {
            return Err(DropReason::UnknownProvider);
        }
        let is_ours = |port: &PortId| self.port(*port).is_some_and(|port| port.spec.kind == PortKind::Nic);
        let is_foreign = match domain.way_back(&facts.subject) {
            Some(Action::Forward { port, .. }) => is_ours(port),
            Some(Action::Push { encapsulation, .. }) => ![provider, encapsulation.local].contains(&encapsulation.remote),
            _ => false,
        };
        if is_foreign { Err(DropReason::SpoofedSource) } else { Ok(()) }
    }

    /// Where a packet goes after the layers of the port it came from.
    pub(in crate::switch) fn forward(&mut self, facts: &mut Facts) -> Result<Egress, End> {
        if let Some(back) = facts.back_to {
            facts.subject.source_mac = back.source_mac;
            facts.subject.destination_mac = back.destination_mac;
            return Ok(back.egress);
        }
        if let Some(underlay) = facts.routed {
            return self.route(underlay, facts);
        }
        let domain = self.domains.get(&facts.domain).ok_or(End::drop(DropReason::NoRoute))?;
        if facts.is_other && !domain.spec.other_protocols {
            return Err(End::Drop(DropReason::NotIp, facts.decisive));
        }
        let rule = facts.find_way(domain.forward(facts.from)).ok_or(End::drop(DropReason::NoRoute))?;
        self.forward_by(&rule, facts)
    }

    fn forward_by(&mut self, rule: &Arc<Rule>, facts: &mut Facts) -> Result<Egress, End> {
        let (to, encapsulation, source_mac, destination_mac) = match &rule.spec.action {
            Action::Forward { port, source_mac, destination_mac } => (*port, None, source_mac, destination_mac),
            Action::Push { port, encapsulation, source_mac, destination_mac } => (*port, Some(*encapsulation), source_mac, destination_mac),
            Action::Route(underlay) => return self.route(*underlay, facts),
            Action::Block(reason) => return Err(End::Drop(*reason, rule.id)),
            Action::Refuse => return Err(End::Refuse(DropReason::Refused, rule.id)),
            _ => return Err(End::Drop(DropReason::NoRoute, rule.id)),
        };
        facts.subject.source_mac = source_mac.unwrap_or(facts.subject.source_mac);
        facts.subject.destination_mac = destination_mac.unwrap_or(facts.subject.destination_mac);
        Ok(Egress { port: to, encapsulation })
    }

    /// Sends a packet to the next hop of an underlay, or to whoever on this node has its destination.
    fn route(&mut self, id: UnderlayId, facts: &mut Facts) -> Result<Egress, End> {
        facts.routed = Some(id);
        let underlay = self.underlays.get(&id).ok_or(End::drop(DropReason::NoRoute))?;
        let uplink = underlay.spec.uplink;
        if let Some(egress) = self.route_here(uplink, facts) {
            return Ok(egress);
        }
        match underlay.route(facts.goal()) {
            Routed::Hop { uplink, source_mac, destination_mac } => {
                facts.subject.source_mac = source_mac;
                facts.subject.destination_mac = destination_mac;
                Ok(Egress { port: uplink, encapsulation: None })
            }
            Routed::Unresolved(next_hop) => Err(End::Unresolved(id, next_hop)),
            Routed::NoRoute => Err(End::Drop(DropReason::NoRoute, facts.decisive)),
        }
    }

    /// A routed packet to an address on this node: as if it had come from the wire.
    fn route_here(&self, uplink: PortId, facts: &mut Facts) -> Option<Egress> {
        let domain = self.domains.get(&self.port(uplink)?.spec.domain)?;
        // Only rules that ask for the destination count, not those that take whatever the wire brings.
        let mut subject = facts.subject;
        (subject.destination_mac, subject.id.destination) = (wire::MacAddress::default(), facts.goal());
        let group = domain.forward(PortKind::Uplink);
        facts.is_particular |= group.asks_source_port(&subject);
        let rule = group.find(&subject, &mut |_| {})?;
        let Action::Forward { port, source_mac, destination_mac } = rule.spec.action else {
            return None;
        };
        facts.matched(rule);
        facts.subject.source_mac = source_mac.unwrap_or(facts.subject.source_mac);
        facts.subject.destination_mac = destination_mac.unwrap_or(facts.subject.destination_mac);
        Some(Egress { port, encapsulation: None })
    }
}
