//! What rules do to a packet.

use std::sync::Arc;

use wire::FlowId;
use wire::number::protocol;

use super::End;
use super::facts::Facts;
use crate::action::Action;
use crate::flow::connection::{Scope, Way};
use crate::nat::{Destination, PoolId, Wish};
use crate::port::{Direction, PortId, PortKind};
use crate::rule::Rule;
use crate::service::Service;
use crate::switch::core::Core;
use crate::underlay::{Routed, UnderlayId};
use crate::verdict::{DropReason, Egress};

/// What a rule asks of the source of a packet.
struct Translation {
    pool: PoolId,
    address: wire::Ip,
    underlay: UnderlayId,
    most: Option<u16>,
}

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
            for group in layer.groups(direction) {
                let mut counted = Vec::new();
                let rule = group.find(&facts.subject, &mut |rule| counted.push(rule.clone())).cloned();
                facts.rules.append(&mut counted);
                let Some(rule) = rule else { continue };
                facts.matched(&rule);
                if self.act(&rule, port, facts)? == Passed::Layer {
                    break;
                }
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
                facts.routed = Some(*underlay);
                self.source_nat(facts, port, &Translation { pool: *pool, address: *address, underlay: *underlay, most: *most })
                    .map_err(|reason| End::Drop(reason, rule.id))?;
            }
            Action::Redirect(service) => redirect(facts, service, self.seed).map_err(|reason| End::Drop(reason, rule.id))?,
            Action::Refuse => return Err(End::Drop(DropReason::Refused, rule.id)),
            Action::Pop { domain } => facts.domain = *domain,
            Action::Route(underlay) => facts.routed = Some(*underlay),
            // These say where a frame goes, which only a domain can.
            Action::Forward { .. } | Action::Push { .. } | Action::Answer(_) | Action::Flood => {
                return Err(End::Drop(DropReason::RuleLoop, rule.id));
            }
        }
        Ok(Passed::Layer)
    }

    fn source_nat(&mut self, facts: &mut Facts, owner: PortId, wanted: &Translation) -> Result<(), DropReason> {
        let Translation { pool: id, address, underlay, most } = *wanted;
        let before = facts.subject.id;
        // An error about no connection that we know speaks of a packet that nobody here sent (RFC 5508, 4.2).
        if before.source.is_v4() != address.is_v4() || facts.is_error {
            return Err(DropReason::UnsupportedProtocol);
        }
        // Only one lease can be remembered.
        if std::mem::replace(&mut facts.is_translated, true) {
            return Err(DropReason::RuleLoop);
        }
        let uplink = self.underlays.get(&underlay).ok_or(DropReason::NoRoute)?.spec.uplink;
        let destination =
            Destination { source: address, address: before.destination, port: before.destination_port, protocol: before.protocol };
        let translated = |port: u16| match before.is_icmp() {
            true => FlowId { source: address, source_port: port, destination_port: port, ..before },
            false => FlowId { source: address, source_port: port, ..before },
        };
        // For an ICMP query the identifier is what is translated, so it is no part of where it goes.
        let destination = if before.is_icmp() { Destination { port: 0, ..destination } } else { destination };
        if let Some(lease) = facts.memory.lease.filter(|lease| lease.pool == id && lease.destination == destination) {
            facts.subject.id = translated(lease.port);
            return Ok(());
        }
        let (connections, own) = (&self.connections, facts.connection);
        let scope = |port: u16| Scope { port: uplink, vni: 0, id: translated(port).reverse() };
        let is_free = |port: u16| connections.find(&scope(port)).is_none_or(|(id, _)| Some(id) == own);
        if !has_ports(before.protocol) {
            facts.subject.id = FlowId { source: address, ..before };
            return if is_free(before.source_port) { Ok(()) } else { Err(DropReason::NoNatPorts) };
        }
        let chance = self.seed ^ before.source.0 as u64 ^ u64::from(before.source_port) << 48;
        let pool = self.pools.get_mut(&id).ok_or(DropReason::NoNatPorts)?;
        let lease = pool.take(&Wish { pool: id, destination, owner, most }, chance, is_free).ok_or(DropReason::NoNatPorts)?;
        facts.memory.lease = Some(lease);
        facts.subject.id = translated(lease.port);
        Ok(())
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
        let mut counted = Vec::new();
        let rule = domain.forward(facts.from).find(&facts.subject, &mut |rule| counted.push(rule.clone())).cloned();
        facts.rules.append(&mut counted);
        let Some(rule) = rule else {
            return Err(End::drop(DropReason::NoRoute));
        };
        facts.matched(&rule);
        self.forward_by(&rule, facts)
    }

    fn forward_by(&mut self, rule: &Arc<Rule>, facts: &mut Facts) -> Result<Egress, End> {
        let (to, encapsulation, source_mac, destination_mac) = match &rule.spec.action {
            Action::Forward { port, source_mac, destination_mac } => (*port, None, source_mac, destination_mac),
            Action::Push { port, encapsulation, source_mac, destination_mac } => (*port, Some(*encapsulation), source_mac, destination_mac),
            Action::Route(underlay) => return self.route(*underlay, facts),
            Action::Block(reason) => return Err(End::Drop(*reason, rule.id)),
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
        match underlay.route(facts.subject.id.destination) {
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
        let subject = crate::classify::Subject { destination_mac: wire::MacAddress::default(), ..facts.subject };
        let rule = domain.forward(PortKind::Uplink).find(&subject, &mut |_| {})?;
        let Action::Forward { port, source_mac, destination_mac } = rule.spec.action else {
            return None;
        };
        facts.matched(rule);
        facts.subject.source_mac = source_mac.unwrap_or(facts.subject.source_mac);
        facts.subject.destination_mac = destination_mac.unwrap_or(facts.subject.destination_mac);
        Some(Egress { port, encapsulation: None })
    }
}

/// Whether translation can change ports of a protocol. SCTP's checksum covers them, and would have to be computed anew.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP | protocol::ICMPV6)
}

fn is_translatable(before: &FlowId, after: &FlowId) -> bool {
    let same_family = before.source.is_v4() == after.source.is_v4() && before.destination.is_v4() == after.destination.is_v4();
    let same_ports = (before.source_port, before.destination_port) == (after.source_port, after.destination_port);
    same_family && (same_ports || (has_ports(before.protocol) && !before.is_icmp()))
}

/// Sends a connection to one of the backends: the one it has, if that is still there.
fn redirect(facts: &mut Facts, service: &Service, seed: u64) -> Result<(), DropReason> {
    let id = facts.subject.id;
    let kept = facts.memory.backend.filter(|backend| service.backends.contains(backend));
    let backend = kept.or_else(|| service.backends.select(service.distribution.hash(&id, seed))).ok_or(DropReason::NoBackend)?;
    let after = FlowId { destination: backend.address, destination_port: backend.port, ..id };
    if !is_translatable(&id, &after) {
        return Err(DropReason::UnsupportedProtocol);
    }
    facts.memory.backend = Some(backend);
    facts.subject.id = after;
    Ok(())
}
