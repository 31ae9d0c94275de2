//! What documents ask of the network, handed on.
//!
//! The store is the authority and the switch follows: after every durable change it is told of it, and when the
//! service starts, or an order has failed, the two are compared by revision and only the difference is applied. A switch that fails does not
//! undo the change; what it could not do is reported as degraded and tried again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hcn::Guid;
use hcn::api::Kind;
use serde_json::Value;

use crate::record::AnyRecord;
use crate::state::State;

/// The switch could not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchError(pub String);

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SwitchError {}

/// One thing the switch is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// This object is there.
    Put(Wanted),
    /// This object is gone.
    Remove(Kind, Guid),
}

/// An object as the switch is to have it. It shares its document with the store, so that passing it on costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted(AnyRecord);

impl Wanted {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// Its id.
    pub fn id(&self) -> Guid {
        self.0.id()
    }

    /// The number of the change that made it so.
    pub fn revision(&self) -> u64 {
        self.0.inside().revision
    }

    /// The adapter that a network is bound to, as documents call it.
    pub fn adapter(&self) -> Option<&str> {
        Some(self.0.inside().adapter.as_str()).filter(|adapter| !adapter.is_empty())
    }

    /// Its document, complete, in schema 2.
    pub fn document(&self) -> Value {
        self.0.document()
    }
}

impl Order {
    pub(crate) fn put(record: &AnyRecord) -> Self {
        Self::Put(Wanted(record.clone()))
    }

    /// The object it is about.
    pub fn object(&self) -> (Kind, Guid) {
        match self {
            Self::Put(wanted) => (wanted.kind(), wanted.id()),
            Self::Remove(kind, id) => (*kind, *id),
        }
    }
}

/// A virtual switch, as the service sees it.
pub trait Switch: Send + Sync {
    /// What the switch has been told and still holds: each object with its revision.
    fn inventory(&self) -> Result<BTreeMap<(Kind, Guid), u64>, SwitchError>;

    /// Does what one order says.
    fn apply(&self, order: &Order) -> Result<(), SwitchError>;

    /// Does what the orders say, in order, each by itself.
    fn apply_all(&self, orders: &[Order]) -> Vec<Result<(), SwitchError>> {
        orders.iter().map(|order| self.apply(order)).collect()
    }

    /// Says that all there is to be told has been told, after the two were compared.
    fn settled(&self) {}

    /// Whether documents become true. Then what cannot become true is refused.
    fn moves_packets(&self) -> bool {
        false
    }

    /// Which switch this is. One that was started anew is another one, and has nothing.
    fn instance(&self) -> Result<String, SwitchError> {
        Ok(String::new())
    }

    /// What an endpoint has sent and received, if it has a port.
    fn counters(&self, _endpoint: Guid) -> Option<EndpointCounters> {
        None
    }
}

/// What an endpoint has sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Bytes to it.
    pub bytes_received: u64,
    /// Bytes from it.
    pub bytes_sent: u64,
    /// Packets to it.
    pub packets_received: u64,
    /// Packets from it.
    pub packets_sent: u64,
    /// Packets to it that were lost.
    pub dropped_incoming: u64,
    /// Packets from it that were dropped.
    pub dropped_outgoing: u64,
}

/// A switch that moves no packets and remembers what it was told.
#[derive(Debug, Default)]
pub struct Recorder {
    inner: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    objects: BTreeMap<(Kind, Guid), Wanted>,
    orders: u64,
    refusal: Option<String>,
}

impl Recorder {
    /// How many orders it was given.
    pub fn orders(&self) -> u64 {
        self.lock().orders
    }

    /// The document it holds for an object.
    pub fn document(&self, kind: Kind, id: Guid) -> Option<Value> {
        self.lock().objects.get(&(kind, id)).map(Wanted::document)
    }

    /// Makes it refuse every order from now on, or none.
    pub fn refuse(&self, reason: Option<&str>) {
        self.lock().refusal = reason.map(str::to_owned);
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        // A panic elsewhere leaves the map whole: every change to it is one insert or one remove.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Switch for Recorder {
    fn inventory(&self) -> Result<BTreeMap<(Kind, Guid), u64>, SwitchError> {
        Ok(self.lock().objects.iter().map(|(object, wanted)| (*object, wanted.revision())).collect())
    }

    fn apply(&self, order: &Order) -> Result<(), SwitchError> {
        let mut inner = self.lock();
        if let Some(reason) = &inner.refusal {
            return Err(SwitchError(reason.clone()));
        }
        inner.orders += 1;
        match order {
            Order::Put(wanted) => {
                inner.objects.insert((wanted.kind(), wanted.id()), wanted.clone());
            }
            Order::Remove(kind, id) => {
                inner.objects.remove(&(*kind, *id));
            }
        }
        Ok(())
    }
}

/// A switch for a service that has none: everything succeeds and nothing is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSwitch;

impl Switch for NullSwitch {
    fn inventory(&self) -> Result<BTreeMap<(Kind, Guid), u64>, SwitchError> {
        Ok(BTreeMap::new())
    }

    fn apply(&self, _order: &Order) -> Result<(), SwitchError> {
        Ok(())
    }
}

/// What to tell a switch so that it holds what the state says: removals first, dependents before what they depend on.
pub(crate) fn difference(state: &State, inventory: &BTreeMap<(Kind, Guid), u64>) -> Vec<Order> {
    let mut orders: Vec<Order> =
        inventory.keys().rev().filter(|(kind, id)| state.get(*kind, *id).is_none()).map(|(kind, id)| Order::Remove(*kind, *id)).collect();
    for record in state.iter() {
        let object = (record.kind(), record.id());
        if inventory.get(&object) != Some(&record.inside().revision) {
            orders.push(Order::put(&record));
        }
    }
    orders
}
