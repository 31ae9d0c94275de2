//! New sources: an address and a port of a pool, to which the answers come.

use wire::number::protocol;
use wire::{FlowId, Ip};

use super::facts::Facts;
use crate::flow::connection::Scope;
use crate::nat::{CLASHES, Destination, PoolId, Wish};
use crate::port::PortId;
use crate::service::Masquerade;
use crate::switch::core::Core;
use crate::underlay::UnderlayId;
use crate::verdict::DropReason;

/// What a rule asks of the source of a packet.
#[derive(Clone, Copy)]
pub(super) struct Translation {
    pub(super) pool: PoolId,
    pub(super) address: Ip,
    pub(super) most: Option<u16>,
}

impl Core {
    /// The source becomes that of the node, and the packet leaves by the underlay.
    pub(super) fn source_nat(
        &mut self,
        facts: &mut Facts,
        owner: PortId,
        wanted: Translation,
        underlay: UnderlayId,
    ) -> Result<(), DropReason> {
        // A service has given it a source already, to which its answers come back.
        if facts.is_masqueraded {
            return Ok(());
        }
        facts.routed = Some(underlay);
        let uplink = self.underlays.get(&underlay).ok_or(DropReason::NoRoute)?.spec.uplink;
        self.translate_source(facts, owner, wanted, Some(uplink))
    }

    /// The source becomes that of a service; where the packet goes is for its domain to say, and may be where it came from.
    pub(super) fn masquerade(&mut self, facts: &mut Facts, owner: PortId, masquerade: &Masquerade) -> Result<(), DropReason> {
        (facts.is_masqueraded, facts.may_turn) = (true, true);
        let Masquerade { pool, address, .. } = *masquerade;
        self.translate_source(facts, owner, Translation { pool, address, most: None }, None)
    }

    /// Where it is known by which port the packet leaves, nobody else may have a connection whose answers look the same there.
    fn translate_source(
        &mut self,
        facts: &mut Facts,
        owner: PortId,
        wanted: Translation,
        leaves_by: Option<PortId>,
    ) -> Result<(), DropReason> {
        let Translation { pool: id, address, most } = wanted;
        let before = facts.subject.id;
        // An error about no connection that we know speaks of a packet that nobody here sent (RFC 5508, 4.2), and what a router says is for
        // its own link.
        if before.source.is_v4() != address.is_v4() || facts.has_no_name {
            return Err(DropReason::UnsupportedProtocol);
        }
        // Only one lease can be remembered.
        if std::mem::replace(&mut facts.is_translated, true) {
            return Err(DropReason::RuleLoop);
        }
        let destination = destination(&before, address);
        if let Some(lease) = facts.memory.lease.filter(|lease| lease.pool == id && lease.destination == destination) {
            facts.subject.id = translated(&before, address, lease.port);
            return Ok(());
        }
        let (connections, own) = (&self.connections, facts.connection);
        let is_free = |port: u16| {
            leaves_by.is_none_or(|uplink| {
                let scope = Scope { port: uplink, vni: 0, id: translated(&before, address, port).reverse() };
                connections.find(&scope).is_none_or(|(id, _)| Some(id) == own)
            })
        };
        if !has_ports(before.protocol) {
            facts.subject.id = FlowId { source: address, ..before };
            return if is_free(before.source_port) { Ok(()) } else { Err(DropReason::NoNatPorts) };
        }
        let pool = self.pools.get_mut(&id).ok_or(DropReason::NoNatPorts)?;
        let port = facts.wish.filter(|wish| wish.source == address).map(|wish| wish.source_port);
        let wish = Wish { pool: id, destination, owner, most, port };
        let lease = pool.take(&wish, chance(self.seed, &before), is_free).ok_or(DropReason::NoNatPorts)?;
        facts.memory.lease = Some(lease);
        facts.subject.id = translated(&before, address, lease.port);
        Ok(())
    }
}

impl Core {
    /// Gives the first packet of a connection another source port, because its answers would look like those of another connection: two
    /// services of one client may have the same backend. The client's address stays, so that the backend knows it.
    pub(super) fn rename(&mut self, facts: &mut Facts, owner: PortId, reply: &Scope) -> Result<(), DropReason> {
        let before = facts.subject.id;
        // Only one lease can be remembered.
        if facts.is_translated || !has_ports(before.protocol) {
            return Err(DropReason::NoNatPorts);
        }
        let connections = &self.connections;
        let is_free = |port: u16| {
            let scope = Scope { id: translated(&before, before.source, port).reverse(), ..*reply };
            connections.find(&scope).is_none()
        };
        let port = facts.wish.map(|wish| wish.source_port);
        let wish = Wish { pool: CLASHES, destination: destination(&before, before.source), owner, most: None, port };
        let pool = self.pools.get_mut(&CLASHES).ok_or(DropReason::NoNatPorts)?;
        let lease = pool.take(&wish, chance(self.seed, &before), is_free).ok_or(DropReason::NoNatPorts)?;
        facts.memory.lease = Some(lease);
        facts.subject.id = translated(&before, before.source, lease.port);
        self.counters.connections_renamed += 1;
        Ok(())
    }

    /// Gives a later packet the source port that the first one got.
    pub(super) fn keep_name(&self, facts: &mut Facts) {
        let before = facts.subject.id;
        let destination = destination(&before, before.source);
        if let Some(lease) = facts.memory.lease.filter(|lease| lease.pool == CLASHES && lease.destination == destination) {
            facts.subject.id = translated(&before, before.source, lease.port);
        }
    }
}

/// Where to begin to look for a free port.
fn chance(seed: u64, before: &FlowId) -> u64 {
    seed ^ before.source.0 as u64 ^ u64::from(before.source_port) << 48
}

/// Where a packet goes, as far as ports of a pool are concerned. For an ICMP query the identifier is what is translated, so it is
/// no part of it.
fn destination(before: &FlowId, source: Ip) -> Destination {
    let port = if before.is_icmp() { 0 } else { before.destination_port };
    Destination { source, address: before.destination, port, protocol: before.protocol }
}

fn translated(before: &FlowId, source: Ip, port: u16) -> FlowId {
    match before.is_icmp() {
        true => FlowId { source, source_port: port, destination_port: port, ..*before },
        false => FlowId { source, source_port: port, ..*before },
    }
}

/// Whether translation can change ports of a protocol. SCTP's checksum covers them, and would have to be computed anew.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP | protocol::ICMPV6)
}

/// Whether the headers of a packet can be changed so.
pub(super) fn is_translatable(before: &FlowId, after: &FlowId) -> bool {
    let same_family = before.source.is_v4() == after.source.is_v4() && before.destination.is_v4() == after.destination.is_v4();
    let same_ports = (before.source_port, before.destination_port) == (after.source_port, after.destination_port);
    same_family && (same_ports || (has_ports(before.protocol) && !before.is_icmp()))
}
