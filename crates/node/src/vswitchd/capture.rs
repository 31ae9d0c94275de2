//! Live captures: what ports send and receive, with the verdict as a comment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use vfp::{Egress, Outcome, PortId, Switch, Verdict};
use wire::Frame;

use super::offload::KernelOffload;

/// One frame that was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) port: PortId,
    /// Whether the NIC sent it, rather than received it.
    pub(super) sent: bool,
    pub(super) nanoseconds: u64,
    pub(super) bytes: Vec<u8>,
    /// Its length before it was cut.
    pub(super) length: usize,
    pub(super) comment: String,
}

/// How many frames a capture may lag behind before some are left out.
const LAG: usize = 4096;

/// How much of a frame is kept.
const SNAPSHOT: usize = 65_535;

/// All captures that run.
#[derive(Clone, Default)]
pub(super) struct Captures {
    count: Arc<AtomicUsize>,
    /// Forwards nothing by itself while anybody captures.
    kernel: Option<Arc<KernelOffload>>,
    listeners: Arc<Mutex<BTreeMap<usize, Listener>>>,
}

struct Listener {
    port: Option<PortId>,
    seen: mpsc::Sender<Seen>,
}

/// Ends its capture when it goes.
pub(super) struct Running {
    number: usize,
    captures: Captures,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut listeners = self.captures.lock();
        listeners.remove(&self.number);
        self.captures.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(kernel) = self.captures.kernel.as_ref().filter(|_| listeners.is_empty()) {
            kernel.pause(false);
        }
    }
}

impl Captures {
    /// None yet, of a switch that may have flows in the kernel.
    pub(super) fn new(kernel: Option<Arc<KernelOffload>>) -> Self {
        Self { kernel, ..Self::default() }
    }

    /// Whether anybody captures. The only cost while nobody does.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a capture of one port, or of all.
    pub(super) fn start(&self, port: Option<PortId>) -> (Running, mpsc::Receiver<Seen>) {
        let (seen, receiver) = mpsc::channel(LAG);
        let mut listeners = self.lock();
        let number = listeners.keys().next_back().map_or(0, |last| last + 1);
        if let Some(kernel) = &self.kernel {
            kernel.pause(true);
        }
        listeners.insert(number, Listener { port, seen });
        self.count.fetch_add(1, Ordering::Relaxed);
        (Running { number, captures: self.clone() }, receiver)
    }

    /// Keeps a frame as it arrives, before the switch changes it.
    pub(super) fn take(&self, frame: &Frame) -> (Vec<u8>, usize) {
        (frame.bytes()[..frame.len().min(SNAPSHOT)].to_vec(), frame.len())
    }

    /// Tells of a frame that a NIC sent, and what became of it.
    pub(super) fn arrived(&self, switch: &Switch, port: PortId, taken: (Vec<u8>, usize), verdict: &Verdict) {
        let place = switch.place(verdict.rule).map(|place| format!("{place} of {}; ", place.owner)).unwrap_or_default();
        let end = match verdict.outcome {
            Outcome::Forwarded(egress) => match egress.encapsulation {
                Some(outer) => format!("to port {} in {} {} towards {}", egress.port, outer.kind, outer.vni, outer.remote),
                None => format!("to port {}", egress.port),
            },
            Outcome::Flooded(count) => format!("to {count} ports"),
            Outcome::Answered => "answered by the switch".to_owned(),
            Outcome::Dropped(reason) => format!("dropped: {reason} ({})", reason.text()),
        };
        self.tell(port, true, taken, format!("{place}{end}; {}", verdict.tier.name()));
    }

    /// Tells of a frame that goes to a NIC.
    pub(super) fn left(&self, egress: &Egress, frame: &Frame) {
        let comment = egress.encapsulation.map(|outer| format!("in {} {} towards {}", outer.kind, outer.vni, outer.remote));
        self.tell(egress.port, false, self.take(frame), comment.unwrap_or_default());
    }

    fn tell(&self, port: PortId, sent: bool, (bytes, length): (Vec<u8>, usize), comment: String) {
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(0));
        let seen = Seen { port, sent, nanoseconds, bytes, length, comment };
        for listener in self.lock().values().filter(|listener| listener.port.is_none_or(|wanted| wanted == port)) {
            // Whoever reads too slowly loses frames rather than holding up the switch.
            _ = listener.seen.try_send(seen.clone());
        }
    }
}
