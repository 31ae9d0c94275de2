//! Flows beyond the engine: a table elsewhere that repeats, packet by packet, what was decided here.
//!
//! The engine stays the only one who decides. Whoever has such a table forwards a packet only if its flow is there and the generations of its
//! ports are those it was decided under, and counts; everything else comes to [`Switch::process`](crate::Switch::process) as ever.

use std::fmt::Debug;

use wire::number::protocol;
use wire::{Ip, MacAddress};

use crate::flow::entry::Entry;
use crate::port::PortId;
use crate::time::Instant;

/// The addresses of the frame change.
pub const PART_MACS: u8 = crate::transposition::MACS;
/// The IP addresses change.
pub const PART_ADDRESSES: u8 = crate::transposition::ADDRESSES;
/// The ports change.
pub const PART_PORTS: u8 = crate::transposition::PORTS;

/// A flow of TCP or UDP between two ports, as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadFlow {
    /// What its packets are found by. The first word is of the port and the virtual network they come from.
    pub key: [u64; 8],
    /// The ports whose generations count: the one its packets come from, the one they go to, and the one that answers go past.
    pub ports: [PortId; 2],
    /// As above.
    pub past: Option<PortId>,
    /// The generations that it was decided under, in the same order.
    pub generations: [u32; 3],
    /// The largest IP packet that can go this way.
    pub mtu: u16,
    /// Which of the following are new.
    pub parts: u8,
    /// The new address of the frame's receiver.
    pub destination_mac: MacAddress,
    /// The new address of the frame's sender.
    pub source_mac: MacAddress,
    /// The new source.
    pub source: Ip,
    /// The new destination.
    pub destination: Ip,
    /// The new source port.
    pub source_port: u16,
    /// The new destination port.
    pub destination_port: u16,
}

/// What the packets of a flow have left in the other table since it was put there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many there were.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last one was.
    pub at: Instant,
    /// All their TCP flags.
    pub tcp_flags: u8,
}

/// A table elsewhere. It is told of flows by one thread at a time, and must not call the switch.
pub trait Offload: Debug + Send + Sync {
    /// Takes a flow, and counts from nothing. Answers whether it did: it may be full, or not reach a port.
    fn put(&self, flow: &OffloadFlow) -> bool;

    /// Forgets a flow.
    fn remove(&self, key: &[u64; 8]);

    /// What has come by.
    fn counted(&self, key: &[u64; 8]) -> Counted;

    /// Does not forward flows of a port any more that were decided under another generation. When this returns, none of them is under way.
    fn set_generation(&self, port: PortId, generation: u32);
}

impl OffloadFlow {
    /// The flow of an entry, if it is one that can be put elsewhere: tunnels, tags and all but TCP and UDP are not.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let key = entry.key.0;
        let (protocol, vlan) = ((key[5] >> 16) as u8, key[5] as u16);
        let is_plain = matches!(protocol, protocol::TCP | protocol::UDP) && vlan == crate::flow::key::NO_VLAN && key[0] as u32 == 0;
        if !is_plain || entry.encapsulation.is_some() || entry.provider != Ip::NONE {
            return None;
        }
        let t = &entry.transposition;
        Some(Self {
            key,
            ports: [PortId((key[0] >> 32) as u32), entry.to],
            past: entry.past.map(|(port, _)| port),
            generations: [entry.generations[0], entry.generations[1], entry.past.map_or(0, |(_, generation)| generation)],
            mtu: entry.mtu,
            parts: t.parts,
            destination_mac: t.destination_mac,
            source_mac: t.source_mac,
            source: t.source,
            destination: t.destination,
            source_port: t.source_port,
            destination_port: t.destination_port,
        })
    }
}
