//! What the switch counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::verdict::DropReason;

const REASONS: usize = DropReason::ALL.len();

/// How often a reason was the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCount {
    /// The reason.
    pub reason: DropReason,
    /// How often.
    pub packets: u64,
}

/// What passed a port, seen from its NIC, and what the switch dropped of what the NIC sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames the NIC sent.
    pub packets_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Frames the NIC received.
    pub packets_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// What was dropped of what the NIC sent, or would have received, by reason; reasons that never occurred are left out.
    pub drops: Vec<DropCount>,
}

/// What the switch as a whole counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Packets whose flow was in the unified flow table.
    pub unified: u64,
    /// Packets of known connections that walked the layers.
    pub connection: u64,
    /// Packets that walked the layers with nothing known.
    pub new: u64,
    /// Flows that walked the layers again because policy had changed.
    pub resimulated: u64,
    /// Connections made.
    pub connections_made: u64,
    /// Connections that ended by age.
    pub connections_expired: u64,
    /// Connections that ended because policy no longer allows them.
    pub connections_revoked: u64,
    /// Connections that made room for new ones of the same port.
    pub connections_evicted: u64,
    /// Connections that got another source port, as their answers could not have been told from those of another connection.
    pub connections_renamed: u64,
    /// Flows that made room for others in the unified flow table.
    pub flows_displaced: u64,
    /// Requests for neighbours that the switch answered.
    pub neighbours_answered: u64,
    /// Errors that the switch sent about packets.
    pub errors_sent: u64,
}

/// The live counters of a port.
#[derive(Debug)]
pub(crate) struct PortCells {
    packets_sent: AtomicU64,
    bytes_sent: AtomicU64,
    packets_received: AtomicU64,
    bytes_received: AtomicU64,
    drops: [AtomicU64; REASONS],
}

impl Default for PortCells {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            packets_sent: zero(),
            bytes_sent: zero(),
            packets_received: zero(),
            bytes_received: zero(),
            drops: std::array::from_fn(|_| zero()),
        }
    }
}

/// Adds where one thread writes: cheaper than an atomic addition, and a reader sees whole values all the same.
#[inline]
pub(crate) fn add(cell: &AtomicU64, amount: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl PortCells {
    /// The NIC sent frames.
    pub(crate) fn sent(&self, packets: u64, bytes: u64) {
        self.packets_sent.fetch_add(packets, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Frames go to the NIC.
    pub(crate) fn received(&self, packets: u64, bytes: u64) {
        self.packets_received.fetch_add(packets, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, reason: DropReason) {
        self.drops[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        for cell in [&self.packets_sent, &self.bytes_sent, &self.packets_received, &self.bytes_received].into_iter().chain(&self.drops) {
            cell.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> PortCounters {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let count = |reason: &DropReason| DropCount { reason: *reason, packets: load(&self.drops[*reason as usize]) };
        PortCounters {
            packets_sent: load(&self.packets_sent),
            bytes_sent: load(&self.bytes_sent),
            packets_received: load(&self.packets_received),
            bytes_received: load(&self.bytes_received),
            drops: DropReason::ALL.iter().map(count).filter(|count| count.packets > 0).collect(),
        }
    }
}
