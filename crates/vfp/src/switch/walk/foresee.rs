//! Answers before there are any: where flows are forwarded elsewhere too, both directions of a connection are put there with its first packet,
//! so that one packet of it comes up and not two.
//!
//! How an answer will look is a guess as far as the addresses of its frame go: those of the first packet, turned round. A guess that is wrong
//! finds nobody, and the first answer comes up as it would have otherwise.

use wire::number::{protocol, tcp_flag};
use wire::{FlowId, Headers};

use super::{Decided, Packet};
use crate::flow::connection::{ConnectionId, Way};
use crate::flow::key::FlowKey;
use crate::offload::OffloadKey;
use crate::switch::Switch;
use crate::switch::core::Core;

impl Switch {
    /// Puts the answers to a first packet into the unified flow table, if the packet's own flow is forwarded elsewhere.
    /// `there` is the key under which they are elsewhere already, and which says how they really look.
    pub(super) fn foresee(&self, core: &mut Core, id: ConnectionId, first: &Packet<'_>, decided: &Decided, there: Option<&OffloadKey>) {
        let slot = core.connections.get(id).and_then(|connection| connection.forward.slot);
        if !slot.is_some_and(|slot| self.flows.get(slot).offloaded) {
            return;
        }
        let guess = answer(first.headers, decided);
        let headers = there.map(|key| FlowKey(*key).headers()).map_or(guess, |real| Headers {
            source_mac: real.source_mac,
            destination_mac: real.destination_mac,
            ..guess
        });
        let packet = Packet {
            now: first.now,
            port: decided.egress.port,
            headers: &headers,
            encapsulation: decided.egress.encapsulation.as_ref(),
            bytes: 0,
            trial: true,
        };
        let counters = core.counters;
        let found = self.find_known(core, &packet, id, Way::Reply);
        core.counters = counters;
        // Answers that would be those of another connection besides are better seen.
        let Some(found) = found.ok().flatten().filter(|found| found.asked.is_none()) else { return };
        if let Some(connection) = core.connections.get_mut(id) {
            connection.reply.rules = found.facts.rules;
        }
        self.cache(core, id, &packet, &found.decided, Way::Reply, there);
    }
}

/// The headers of an answer.
fn answer(first: &Headers, decided: &Decided) -> Headers {
    let t = &decided.transposition;
    let is_tcp = first.id.protocol == protocol::TCP;
    Headers {
        id: FlowId {
            source: t.destination,
            destination: t.source,
            source_port: t.destination_port,
            destination_port: t.source_port,
            protocol: first.id.protocol,
        },
        source_mac: t.destination_mac,
        destination_mac: t.source_mac,
        tcp_flags: if is_tcp { tcp_flag::SYN | tcp_flag::ACK } else { 0 },
        ..*first
    }
}
