//! Telling those who follow the service what happened.
//!
//! The last events are kept in a ring, so that a follower who was away for a moment can go on where it was. A slow
//! follower never holds up the service: it is told how far it fell behind and must list anew.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hcn::error::{Error, Result, detail};
use hcn::event::{Change, Event};

/// How many events are kept.
const KEPT: usize = 8192;

/// The events of one service.
#[derive(Debug, Default)]
pub struct Hub {
    ring: Mutex<Ring>,
    news: Condvar,
    wakers: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Event>,
    next: u64,
    closed: bool,
}

impl Hub {
    /// A hub whose numbers begin after `base`.
    pub(crate) fn beginning_after(base: u64) -> Self {
        Self { ring: Mutex::new(Ring { next: base, ..Ring::default() }), ..Self::default() }
    }

    /// Publishes an event and gives it its number.
    pub(crate) fn publish(&self, mut event: Event) {
        let mut ring = self.lock();
        if ring.closed {
            return;
        }
        ring.next += 1;
        event.sequence = ring.next;
        if ring.events.len() == KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        drop(ring);
        self.news.notify_all();
        self.wakers.notify_waiters();
    }

    /// Tells every follower that nothing more comes.
    pub fn close(&self) {
        let farewell = Event {
            sequence: 0,
            kind: None,
            change: Change::Disconnected,
            id: Default::default(),
            name: String::new(),
            flags: 0,
            data: Default::default(),
        };
        self.publish(farewell);
        self.lock().closed = true;
        self.news.notify_all();
        self.wakers.notify_waiters();
    }

    /// The number of the newest event.
    pub fn newest(&self) -> u64 {
        self.lock().next
    }

    /// Whether the hub is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The events after a number, without waiting. An error if some of them are no longer kept.
    pub fn after(&self, sequence: u64) -> Result<Vec<Event>> {
        let ring = self.lock();
        let oldest = ring.events.front().map_or(ring.next + 1, |event| event.sequence);
        if sequence > ring.next || sequence + 1 < oldest {
            return Err(fell_behind(sequence, ring.next));
        }
        Ok(ring.events.iter().skip((sequence + 1 - oldest) as usize).cloned().collect())
    }

    /// Waits until there are events after a number, or the hub is closed.
    pub fn wait(&self, sequence: u64) {
        let mut ring = self.lock();
        while ring.next <= sequence && !ring.closed {
            ring = self.news.wait(ring).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Hub::wait`], for asynchronous followers.
    pub async fn changed(&self, sequence: u64) {
        loop {
            let notified = self.wakers.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            {
                let ring = self.lock();
                if ring.next > sequence || ring.closed {
                    return;
                }
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // Every change to the ring is complete before the lock is released, even by a panic.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fell_behind(sequence: u64, newest: u64) -> Error {
    let cause = format!("the events after {sequence} are no longer kept; the newest is {newest}");
    Error::ObjectUsedAfterUnload(detail(cause).field("since").remedy("list the objects anew and follow from there"))
}
