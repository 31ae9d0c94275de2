//! An HNS under whose calls somebody keeps an eye on the clock.
//!
//! Nothing is cut short: what a call that was given up does in the end would not be known. It is only said since when HNS owes an answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hcn::api::Events;
use hcn::{Guid, Hcn, Kind, Result};
use serde_json::Value;

/// An HNS, and the calls that it has not answered.
pub(super) struct Attended {
    hcn: Arc<dyn Hcn>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    next: u64,
    /// When each began that is under way, in this order.
    begun: BTreeMap<u64, Instant>,
}

impl Attended {
    pub(super) fn new(hcn: Arc<dyn Hcn>) -> Self {
        Self { hcn, calls: Mutex::default() }
    }

    /// How long the oldest call has been under way.
    pub(super) fn waiting(&self) -> Option<Duration> {
        self.lock().begun.values().next().map(Instant::elapsed)
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attend<T>(&self, call: impl FnOnce(&dyn Hcn) -> T) -> T {
        let _under_way = self.begin();
        call(&*self.hcn)
    }

    fn begin(&self) -> UnderWay<'_> {
        let mut calls = self.lock();
        calls.next += 1;
        let number = calls.next;
        calls.begun.insert(number, Instant::now());
        UnderWay { attended: self, number }
    }
}

/// A call until it ends, in whatever way.
struct UnderWay<'a> {
    attended: &'a Attended,
    number: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.attended.lock().begun.remove(&self.number);
    }
}

impl Hcn for Attended {
    fn enumerate(&self, kind: Kind, query: &str) -> Result<Vec<Guid>> {
        self.attend(|hcn| hcn.enumerate(kind, query))
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> Result<Guid> {
        self.attend(|hcn| hcn.create(kind, network, id, settings))
    }

    fn query(&self, kind: Kind, id: Guid, query: &str) -> Result<Value> {
        self.attend(|hcn| hcn.query(kind, id, query))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        self.attend(|hcn| hcn.modify(kind, id, settings))
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.attend(|hcn| hcn.delete(kind, id))
    }

    fn call(&self, method: &str, path: &str, request: &str) -> Result<Value> {
        self.attend(|hcn| hcn.call(method, path, request))
    }

    /// Events come when they come.
    fn events(&self) -> Result<Events> {
        self.hcn.events()
    }

    fn create_document(&self, kind: Kind, settings: &str) -> Result<Value> {
        self.attend(|hcn| hcn.create_document(kind, settings))
    }

    fn settle(&self) -> Result<()> {
        self.attend(|hcn| hcn.settle())
    }

    fn list(&self, kind: Kind, query: &str) -> Result<Vec<Value>> {
        self.attend(|hcn| hcn.list(kind, query))
    }
}
