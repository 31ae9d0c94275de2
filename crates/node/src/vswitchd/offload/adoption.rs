//! Flows of the vswitchd before this one: the kernel has forwarded them all the time, and they become ours.

use std::collections::HashMap;

use host::kernel_flows::{FLAG_POPPED, FLAG_REPLY, KernelFlow, KernelKey, Previous};
use vfp::{Counted, OffloadKey, OffloadOpened};

use super::{Ends, KernelOffload, entry};

impl KernelOffload {
    /// Tells of every connection that the kernel forwards by another table. Answers how many were taken, and how many there were.
    pub(in crate::vswitchd) fn adopt(&self, previous: &Previous, mut take: impl FnMut(&OffloadOpened) -> bool) -> (usize, usize) {
        let flows: HashMap<KernelKey, KernelFlow> = previous.flows().collect();
        let first = flows.iter().filter(|(_, flow)| flow.flags & FLAG_REPLY == 0);
        let known: Vec<OffloadOpened> = first.filter_map(|(key, flow)| self.known(&flows, key, flow)).collect();
        (known.iter().filter(|opened| take(opened)).count(), known.len())
    }

    fn known(&self, flows: &HashMap<KernelKey, KernelFlow>, key: &KernelKey, flow: &KernelFlow) -> Option<OffloadOpened> {
        let ends = self.ends.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ours = ends.engine_key(key)?;
        let remote = entry::address(&flow.remote, super::is_v4(&flow.remote));
        let encapsulation = match flow.flags & FLAG_POPPED {
            0 => None,
            _ => Some(ends.popped(&ours, remote)?),
        };
        let forward = self.counted_in(flow);
        let answers = reply_key(&ends, key, flow).and_then(|reply| flows.get(&reply));
        // Answers that came by another way than was foreseen cannot be found. Who has been acknowledged has been answered.
        let reply = answers.map_or(Counted { packets: 0, bytes: 0, ..forward }, |flow| self.counted_in(flow));
        let translated = Some(entry::translated(key, flow));
        Some(OffloadOpened { key: ours, reply_key: None, encapsulation, generations: None, translated, counted: [forward, reply] })
    }
}

/// What answers are found by: what packets become, turned round.
fn reply_key(ends: &Ends, key: &KernelKey, flow: &KernelFlow) -> Option<OffloadKey> {
    let id = entry::translated(key, flow).reverse();
    let link = match flow.flags & host::kernel_flows::FLAG_PUSH {
        0 => flow.to,
        _ => ends.tunnel_by(flow)?,
    };
    let mac = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (destination_mac, source_mac) = match flow.parts & vfp::PART_MACS {
        0 => (key[7], key[6]),
        _ => (mac(&flow.macs[6..]), mac(&flow.macs[..6])),
    };
    Some([
        u64::from(link) << 32 | u64::from(flow.vni),
        id.source.0 as u64,
        (id.source.0 >> 64) as u64,
        id.destination.0 as u64,
        (id.destination.0 >> 64) as u64,
        u64::from(id.source_port) << 48 | u64::from(id.destination_port) << 32 | key[5] & 0xffff_ffff,
        destination_mac,
        source_mac,
    ])
}

impl Ends {
    /// What stands for the tunnel by which packets leave.
    fn tunnel_by(&self, flow: &KernelFlow) -> Option<u32> {
        let is_it = |place: &super::Place| match *place {
            super::Place::Tunnel { local, port, .. } => {
                entry::bytes(wire::Ip::from(local)) == flow.local && port.to_be_bytes() == flow.tunnel_port
            }
            _ => false,
        };
        self.behind.values().find(|behind| is_it(&behind.place)).map(|behind| behind.link)
    }
}
