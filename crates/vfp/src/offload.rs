//! Flows beyond the engine: a table elsewhere that repeats, packet by packet, what was decided here.
//!
//! The engine stays the only one who decides. Whoever has such a table forwards a packet only if its flow is there and the generations of its
//! ports are those it was decided under, and counts; everything else comes to [`Switch::process`](crate::Switch::process) as ever.
//!
//! What was decided for all first packets from one address to another is an *opening*. By it connections may be opened there, which the engine
//! hears of afterwards and takes up as its own.

use std::fmt::Debug;

use wire::number::protocol;
use wire::{Encapsulation, FlowId, Ip, MacAddress, TunnelKind};

use crate::flow::entry::Entry;
use crate::port::PortId;
use crate::service::Backend;
use crate::time::Instant;

/// The addresses of the frame change.
pub const PART_MACS: u8 = crate::transposition::MACS;
/// The IP addresses change.
pub const PART_ADDRESSES: u8 = crate::transposition::ADDRESSES;
/// The ports change.
pub const PART_PORTS: u8 = crate::transposition::PORTS;

/// What flows are found by: the first word is of the port and the virtual network that packets come from.
pub type OffloadKey = [u64; 8];

/// A flow of TCP or UDP between two ports, as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadFlow {
    /// What its packets are found by.
    pub key: OffloadKey,
    /// The ports whose generations count: the one its packets come from, the one they go to, and the one that answers go past.
    pub ports: [PortId; 2],
    /// As above.
    pub past: Option<PortId>,
    /// The generations that it was decided under, in the same order.
    pub generations: [u32; 3],
    /// Whether its packets answer.
    pub reply: bool,
    /// Whether another connection of the same name would be decided about the same.
    pub again: bool,
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
    /// The outer headers that its packets leave with.
    pub encapsulation: Option<Encapsulation>,
    /// The node that its packets come from by a tunnel; else [`Ip::NONE`].
    pub provider: Ip,
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
    /// All their TCP flags since the last SYN.
    pub tcp_flags: u8,
}

/// What becomes of first packets that differ in their source port alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadOpening {
    /// Their flow, with the source port of one of them.
    pub forward: OffloadFlow,
    /// That of the answers.
    pub reply: OffloadFlow,
    /// If the ports of a connection choose its backend: how, and which one this is about.
    pub choice: Option<OffloadChoice>,
    /// Whether an answer was seen. Until then it is a guess how the frames of answers look, which does not replace what is known.
    pub is_answered: bool,
}

/// How the ports of a connection choose among backends: as [`Backends`](crate::Backends) do, by what stands for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadChoice {
    /// What stands for each backend, in order.
    pub hashes: [u64; Self::BACKENDS],
    /// How many there are.
    pub count: usize,
    /// The place of the one that was chosen.
    pub chosen: usize,
    /// What the choice is mixed with.
    pub seed: u64,
}

impl OffloadChoice {
    /// As many as can be chosen from elsewhere.
    pub const BACKENDS: usize = 8;

    /// The choice of one of these backends, if they are few enough.
    pub(crate) fn among(list: &[Backend], chosen: &Backend, seed: u64) -> Option<Self> {
        let place = list.iter().position(|backend| backend == chosen).filter(|_| list.len() <= Self::BACKENDS)?;
        let hashes = std::array::from_fn(|at| list.get(at).map_or(0, Backend::hash));
        Some(Self { hashes, count: list.len(), chosen: place, seed })
    }
}

/// A connection whose flows are in the other table and not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadOpened {
    /// The flow of its first packet.
    pub key: OffloadKey,
    /// That of the answers, if it is known.
    pub reply_key: Option<OffloadKey>,
    /// The outer headers that its first packet came with.
    pub encapsulation: Option<Encapsulation>,
    /// The generations of both ports that the flows stand under, if they are of this engine.
    pub generations: Option<[u32; 2]>,
    /// What its packets become. Asked for if that cannot be found out otherwise.
    pub translated: Option<FlowId>,
    /// What the packets of each side have left until now, and will not tell again.
    pub counted: [Counted; 2],
}

/// A table elsewhere. It is told of flows by one thread at a time, and must not call the switch.
pub trait Offload: Debug + Send + Sync {
    /// Takes a flow, and counts from nothing. Answers whether it did: it may be full, or not reach a port.
    fn put(&self, flow: &OffloadFlow) -> bool;

    /// Forgets a flow, and answers what came by until then: not one packet is forwarded that is not in it.
    fn remove(&self, key: &OffloadKey) -> Counted;

    /// What has come by.
    fn counted(&self, key: &OffloadKey) -> Counted;

    /// Does not forward flows of a port any more that were decided under another generation. When this returns, none of them is under way.
    fn set_generation(&self, port: PortId, generation: u32);

    /// Takes an opening, if it knows openings.
    fn put_opening(&self, _opening: &OffloadOpening) {}

    /// Tells of connections that were opened by openings, each once, but not of more than so many. Answers whether that were all.
    fn each_opened(&self, _most: usize, _tell: &mut dyn FnMut(&OffloadOpened)) -> bool {
        true
    }

    /// How many connections there are to tell of, or a few less.
    fn opened(&self) -> usize {
        0
    }

    /// What the packets of a flow become.
    fn translated(&self, _key: &OffloadKey) -> Option<FlowId> {
        None
    }
}

impl OffloadFlow {
    /// The flow of an entry, if it is one that can be put elsewhere: tags, other tunnels than VXLAN, and all but TCP and UDP are not.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let key = entry.key.0;
        let (protocol, vlan) = ((key[5] >> 16) as u8, key[5] as u16);
        let is_plain = matches!(protocol, protocol::TCP | protocol::UDP) && vlan == crate::flow::key::NO_VLAN;
        if !is_plain || entry.encapsulation.is_some_and(|outer| outer.kind != TunnelKind::Vxlan) {
            return None;
        }
        let t = &entry.transposition;
        Some(Self {
            key,
            ports: [PortId((key[0] >> 32) as u32), entry.to],
            past: entry.past.map(|(port, _)| port),
            generations: [entry.generations[0], entry.generations[1], entry.past.map_or(0, |(_, generation)| generation)],
            reply: entry.reply,
            again: entry.again,
            mtu: entry.mtu,
            parts: t.parts,
            destination_mac: t.destination_mac,
            source_mac: t.source_mac,
            source: t.source,
            destination: t.destination,
            source_port: t.source_port,
            destination_port: t.destination_port,
            encapsulation: entry.encapsulation,
            provider: entry.provider,
        })
    }
}
