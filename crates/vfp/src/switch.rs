//! The switch: ports, domains, and what they remember.

mod core;
mod error_message;
mod group_frame;
mod known;
mod neighbour;
mod setup;
mod simulate;
mod sweep;
pub(crate) mod view;
mod walk;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::number::tcp_flag;
use wire::{Encapsulation, Fragment, Frame, Headers, Ip, Kind};

use self::core::Core;
use crate::counters::PortCells;
use crate::domain::DomainId;
use crate::flow::connection::{ConnectionId, Side};
use crate::flow::entry::Entry;
use crate::flow::expiry::Timeouts;
use crate::flow::table::{Seen, SlotId, Table};
use crate::offload::{Counted, Offload, OffloadFlow};
use crate::port::PortId;
use crate::time::Instant;
use crate::underlay::UnderlayId;
use crate::verdict::{DropReason, Egress, Outcome, Verdict};

/// How much the switch may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ports.
    pub ports: usize,
    /// Connections.
    pub connections: usize,
    /// Flows in the unified flow table; two to a connection.
    pub flows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { ports: 16_384, connections: 131_072, flows: 262_144 }
    }
}

/// Where frames go that leave the switch.
pub trait Sink {
    /// Sends a frame. It may be changed, and is not looked at again.
    fn send(&mut self, egress: &Egress, frame: &mut Frame);

    /// The hardware address of a next hop is wanted, for this frame of this port. The frame is dropped; a copy may be
    /// kept and given to [`Switch::process`] again when the address is known.
    fn resolve(&mut self, underlay: UnderlayId, next_hop: Ip, port: PortId, frame: &Frame);

    /// A frame to build answers in.
    fn scratch(&mut self) -> &mut Frame;
}

/// What cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchError {
    /// There are as many ports as there can be.
    NoMorePorts(usize),
    /// There is no such port.
    NoPort(PortId),
    /// There is no such domain.
    NoDomain(DomainId),
    /// There is no such underlay.
    NoUnderlay(UnderlayId),
    /// There is no such pool.
    NoPool(crate::nat::PoolId),
    /// There is no such table.
    NoTable(crate::table::TableId),
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMorePorts(limit) => write!(f, "the switch has {limit} ports and can have no more"),
            Self::NoPort(id) => write!(f, "the switch has no port {id}"),
            Self::NoDomain(id) => write!(f, "the switch has no domain {}", id.0),
            Self::NoUnderlay(id) => write!(f, "the switch has no underlay {}", id.0),
            Self::NoPool(id) => write!(f, "the switch has no pool {}", id.0),
            Self::NoTable(id) => write!(f, "the switch has no table {}", id.0),
        }
    }
}

impl std::error::Error for SwitchError {}

/// What the fast path reads of a port.
#[derive(Debug, Default)]
struct PortCell {
    /// Moves on with every change that may concern the flows of this port. 0 while there is no port.
    generation: AtomicU32,
    counters: PortCells,
}

/// What the fast path works on: the unified flow table, and the ports. Flows may be in a table elsewhere besides.
#[derive(Debug)]
struct Flows {
    table: Table,
    cells: Box<[PortCell]>,
    offload: Option<Arc<dyn Offload>>,
}

impl std::ops::Deref for Flows {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Flows {
    /// Writes a flow into a slot, and puts it elsewhere too if that is possible. `is_there` says that it is there already.
    fn write(&self, slot: SlotId, entry: &Entry, now: Instant, is_there: bool) {
        if !is_there {
            self.withdraw(slot);
        }
        let put = |offload: &Arc<dyn Offload>| OffloadFlow::of(entry).is_some_and(|flow| offload.put(&flow));
        let offloaded = is_there || self.offload.as_ref().is_some_and(put);
        self.table.write(slot, &Entry { offloaded, ..*entry }, now);
    }

    /// Empties a slot.
    fn erase(&self, slot: SlotId) {
        self.withdraw(slot);
        self.table.erase(slot);
    }

    /// Has the flow of a slot forwarded here alone.
    fn withdraw(&self, slot: SlotId) {
        if let Some(offload) = &self.offload {
            let entry = self.table.get(slot);
            if entry.offloaded {
                offload.remove(&entry.key.0);
            }
        }
    }

    /// What the packets of a flow have left, here and elsewhere.
    fn seen(&self, slot: SlotId) -> Seen {
        let seen = self.table.seen(slot);
        let Some(offload) = &self.offload else { return seen };
        let entry = self.table.get(slot);
        if !entry.offloaded {
            return seen;
        }
        seen.and(&offload.counted(&entry.key.0))
    }

    /// Has a flow forwarded here alone, with all that was counted elsewhere collected. Answers how many packets that were.
    fn reclaim(&self, side: &mut Side) -> u64 {
        let (Some(slot), Some(offload)) = (side.slot, &self.offload) else { return 0 };
        let entry = self.table.get(slot);
        if !entry.offloaded {
            return 0;
        }
        let counted = offload.remove(&entry.key.0);
        let packets = self.collect_seen(side, slot, &self.table.seen(slot).and(&counted));
        self.table.set_offloaded(slot, false);
        // From here on the slot's own count goes on alone.
        side.collected = self.table.seen(slot);
        packets
    }

    /// Whether a flow of a connection is forwarded elsewhere.
    fn is_offloaded(&self, side: &Side, of: ConnectionId) -> bool {
        side.slot.is_some_and(|slot| self.table.owner(slot) == of && self.table.get(slot).offloaded)
    }

    /// Has a flow that was reclaimed forwarded elsewhere again.
    fn release(&self, side: &Side) {
        let (Some(slot), Some(offload)) = (side.slot, &self.offload) else { return };
        let entry = self.table.get(slot);
        if !entry.offloaded && OffloadFlow::of(&entry).is_some_and(|flow| offload.put(&flow)) {
            self.table.set_offloaded(slot, true);
        }
    }

    /// Adds what the slot of a flow has counted since the last time to the flow and to both of its ports. Answers how many
    /// packets that were.
    fn collect(&self, side: &mut Side) -> u64 {
        let Some(slot) = side.slot else { return 0 };
        self.collect_seen(side, slot, &self.seen(slot))
    }

    fn collect_seen(&self, side: &mut Side, slot: SlotId, seen: &Seen) -> u64 {
        let to = self.table.to(slot);
        let (packets, bytes) = side.collect(seen);
        // The connection may have begun again elsewhere, with SYN: what was before does not count any more.
        if seen.tcp_flags & tcp_flag::SYN != 0 {
            side.seen.tcp_flags = seen.tcp_flags;
        }
        if let Some(cell) = self.cells.get(side.scope.port.0 as usize) {
            cell.counters.sent(packets, bytes);
        }
        if let Some(cell) = self.cells.get(to.0 as usize) {
            cell.counters.received(packets, bytes);
        }
        packets
    }
}

impl Seen {
    /// Together with what was counted elsewhere.
    fn and(&self, counted: &Counted) -> Self {
        Self {
            packets: self.packets + counted.packets,
            bytes: self.bytes + counted.bytes,
            at: self.at.max(counted.at),
            tcp_flags: self.tcp_flags | counted.tcp_flags,
        }
    }
}

/// A virtual switch.
#[derive(Debug)]
pub struct Switch {
    flows: Flows,
    core: Mutex<Core>,
}

impl Switch {
    /// A switch without ports. `seed` is for its hash tables: whoever knows it can make flows collide.
    pub fn new(limits: Limits, timeouts: Timeouts, seed: u64) -> Self {
        let cells = (0..limits.ports).map(|_| PortCell::default()).collect();
        let flows = Flows { table: Table::new(limits.flows, seed), cells, offload: None };
        Self { flows, core: Mutex::new(Core::new(limits, timeouts, seed)) }
    }

    /// Puts flows into a table elsewhere too, from the first one on.
    #[must_use]
    pub fn with_offload(mut self, offload: Arc<dyn Offload>) -> Self {
        self.flows.offload = Some(offload);
        self
    }

    /// Has the operating system bring the memory of the flow table now, which otherwise comes as flows do.
    pub fn populate(&self) {
        self.flows.populate();
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // Whoever panicked held a core whose tables are each whole; the worst that is left is a connection without a flow.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generation(&self, port: PortId) -> u32 {
        self.flows.cells.get(port.0 as usize).map_or(0, |cell| cell.generation.load(Ordering::Acquire))
    }

    /// Handles one frame that the NIC of `port` has sent. `encapsulation` is what a tunnel has popped.
    ///
    /// Frames of one port must come one at a time; those of different ports may come at once.
    pub fn process(
        &self,
        now: Instant,
        port: PortId,
        frame: &mut Frame,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        // The common case first, and by itself: what is not plain, or not known, is read again by those who can take their time.
        if let Some(headers) = Headers::plain(frame.bytes())
            && headers.check_offload(frame).is_ok()
            && let Some(verdict) = self.known(now, port, frame, &headers, encapsulation, sink)
        {
            return verdict;
        }
        self.process_slowly(now, port, frame, encapsulation, sink)
    }

    #[cold]
    #[inline(never)]
    fn process_slowly(
        &self,
        now: Instant,
        port: PortId,
        frame: &mut Frame,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        let Some(cell) = self.flows.cells.get(port.0 as usize) else {
            return Verdict::drop(DropReason::PortGone);
        };
        let bytes = frame.len() as u64;
        let verdict = match read(frame) {
            // Queries of ICMP and tagged packets are flows too, and not plain.
            Ok(headers) => match self.known(now, port, frame, &headers, encapsulation, sink) {
                Some(verdict) => return verdict,
                None => self.unknown(now, port, frame, headers, encapsulation, sink),
            },
            Err(reason) => Verdict::drop(reason),
        };
        cell.counters.sent(1, bytes);
        if let Outcome::Dropped(reason) = verdict.outcome {
            cell.counters.dropped(reason);
        }
        verdict
    }

    /// What is not in the unified flow table.
    fn unknown(
        &self,
        now: Instant,
        port: PortId,
        frame: &mut Frame,
        headers: Headers,
        encapsulation: Option<&Encapsulation>,
        sink: &mut impl Sink,
    ) -> Verdict {
        match headers.kind {
            Kind::Neighbour { .. } => self.neighbour(port, frame, &headers, encapsulation, sink),
            Kind::Router if self.core().is_no_router(port) => Verdict::drop(DropReason::RouterGuard),
            Kind::Ip | Kind::Router | Kind::Other if headers.is_group() || headers.id.destination.is_multicast() => {
                self.group_frame(port, frame, &headers, encapsulation, sink)
            }
            Kind::IcmpError => self.error_message(now, port, frame, &headers, encapsulation, sink),
            Kind::Ip | Kind::Router | Kind::Other => self.walk(now, port, frame, headers, encapsulation, sink),
        }
    }

    /// Sends a frame on and counts it.
    fn send(&self, egress: &Egress, frame: &mut Frame, sink: &mut impl Sink) {
        if let Some(cell) = self.flows.cells.get(egress.port.0 as usize) {
            cell.counters.received(1, frame.len() as u64);
        }
        sink.send(egress, frame);
    }
}

/// Reads a frame and checks what its sender left to be done.
#[inline]
fn read(frame: &Frame) -> Result<Headers, DropReason> {
    let headers = Headers::parse(frame.bytes())?;
    headers.check_offload(frame)?;
    Ok(headers)
}

/// Whether packets like this one can be in the unified flow table.
#[inline]
fn is_cached(headers: &Headers) -> bool {
    headers.kind == Kind::Ip && headers.fragment == Fragment::Whole && !headers.is_group()
}
