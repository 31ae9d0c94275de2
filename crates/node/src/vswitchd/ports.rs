//! The NICs behind the switch's ports, found without a lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use host::nic::Sender;
use host::nic::udp_tunnel::MalformedCounter;
use vfp::PortId;

/// The sending half of a NIC, with what it lost.
pub(super) struct Outlet {
    pub(super) sender: Arc<dyn Sender>,
    /// Frames that the NIC did not take.
    pub(super) lost: AtomicU64,
}

/// All of them, by port.
pub(super) type Table = Vec<Option<Arc<Outlet>>>;

/// The NICs behind the ports. Workers take the table once a batch; changing it makes a new one.
#[derive(Clone, Default)]
pub(super) struct Outlets {
    table: Arc<ArcSwap<Table>>,
}

impl Outlets {
    /// The table as it is now.
    pub(super) fn load(&self) -> arc_swap::Guard<Arc<Table>> {
        self.table.load()
    }

    /// Puts a NIC behind a port.
    pub(super) fn put(&self, port: PortId, sender: Arc<dyn Sender>) {
        let outlet = Arc::new(Outlet { sender, lost: AtomicU64::new(0) });
        self.change(port, Some(outlet));
    }

    /// Takes the NIC away from a port.
    pub(super) fn remove(&self, port: PortId) {
        self.change(port, None);
    }

    fn change(&self, port: PortId, outlet: Option<Arc<Outlet>>) {
        let at = port.0 as usize;
        self.table.rcu(|table| {
            let mut table = Table::clone(table);
            if table.len() <= at {
                table.resize(at + 1, None);
            }
            table[at].clone_from(&outlet);
            table
        });
    }

    /// How many frames the NIC of a port did not take.
    pub(super) fn lost(&self, port: PortId) -> u64 {
        let table = self.load();
        table.get(port.0 as usize).and_then(Option::as_ref).map_or(0, |outlet| outlet.lost.load(Ordering::Relaxed))
    }
}

/// How many datagrams arrived at tunnels that were none of theirs, by port.
#[derive(Clone, Default)]
pub(super) struct Malformed {
    counters: Arc<Mutex<BTreeMap<PortId, MalformedCounter>>>,
}

impl Malformed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PortId, MalformedCounter>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the counter of a tunnel.
    pub(super) fn put(&self, port: PortId, counter: MalformedCounter) {
        self.lock().insert(port, counter);
    }

    /// Forgets it.
    pub(super) fn remove(&self, port: PortId) {
        self.lock().remove(&port);
    }

    /// The count of a port.
    pub(super) fn of(&self, port: PortId) -> u64 {
        self.lock().get(&port).map_or(0, MalformedCounter::get)
    }
}
