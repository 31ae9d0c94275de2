//! The one thread that changes the state.
//!
//! It takes whatever has queued up, does it on drafts, makes the batch durable with one fsync, publishes the new state, tells the
//! switch and the followers, and only then answers.

use std::collections::HashMap;
use std::future::Future;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hcn::Guid;
use hcn::api::Kind;
use hcn::error::{Error, Result, detail};
use tokio::sync::oneshot;

use crate::journal::{Change, Journal, JournalError};
use crate::operation::{Draft, World};
use crate::state::State;
use crate::switch::{self, Order, Switch};

/// How many changes one fsync may carry.
const BATCH: usize = 256;

/// How long the writer waits for callers that are likely to come.
const PATIENCE: Duration = Duration::from_micros(150);

/// An answer that comes when the change is durable.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T>>);

impl<T> Pending<T> {
    /// An answer that is there already.
    pub(crate) fn ready(answer: Result<T>) -> Self {
        let (reply, pending) = oneshot::channel();
        _ = reply.send(answer);
        Self(pending)
    }

    /// Waits for the answer. Not for asynchronous code, which awaits it instead.
    pub fn wait(self) -> Result<T> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(stopped()))
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or_else(|_| Err(stopped())))
    }
}

fn stopped() -> Error {
    Error::ManagerStopped(detail("the service is stopping").remedy("try again when it is back"))
}

/// A change waiting to be made.
pub(crate) trait Job: Send {
    /// Makes the change on a draft.
    fn run(&mut self, draft: &mut Draft<'_>) -> Result<()>;

    /// Answers the caller.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// Makes a job of an operation, and the answer to wait for.
pub(crate) fn job<T: Send + 'static>(operation: impl FnOnce(&mut Draft<'_>) -> Result<T> + Send + 'static) -> (Box<dyn Job>, Pending<T>) {
    let (reply, pending) = oneshot::channel();
    (Box::new(Typed { operation: Some(operation), answer: None, reply }), Pending(pending))
}

struct Typed<T, F> {
    operation: Option<F>,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnOnce(&mut Draft<'_>) -> Result<T> + Send> Job for Typed<T, F> {
    fn run(&mut self, draft: &mut Draft<'_>) -> Result<()> {
        if let Some(operation) = self.operation.take() {
            self.answer = Some(operation(draft)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { answer, reply, .. } = *self;
        // A caller that hung up does not want its answer; the change stands.
        _ = reply.send(outcome.and_then(|()| answer.ok_or_else(stopped)));
    }
}

/// The one thread that changes the state.
pub(crate) struct Writer {
    journal: Journal,
    switch: Arc<dyn Switch>,
    world: Arc<World>,
    published: Arc<ArcSwap<State>>,
    /// Whether the switch may lack something that the state has.
    behind: bool,
    /// Which switch it was that was told.
    instance: String,
    /// When the switch was looked after last.
    looked: Instant,
    /// Whether the switch did not answer last time.
    silent: bool,
    /// What it said last of each object that it could not do.
    complaints: HashMap<(Kind, Guid), String>,
}

/// How often the switch is looked after while nobody asks for anything.
const ROUND: Duration = Duration::from_secs(1);

impl Writer {
    /// A writer whose switch holds what the state says.
    pub(crate) fn new(journal: Journal, switch: Arc<dyn Switch>, world: Arc<World>, published: Arc<ArcSwap<State>>) -> Self {
        let mut writer = Self {
            journal,
            switch,
            world,
            published,
            behind: true,
            instance: String::new(),
            looked: Instant::now(),
            silent: false,
            complaints: HashMap::new(),
        };
        writer.catch_up();
        writer
    }

    /// Makes changes until nobody can ask for any more.
    pub(crate) fn run(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut expected = 1;
        loop {
            match jobs.recv_timeout(ROUND) {
                Ok(first) => {
                    let batch = gather(first, jobs, expected);
                    expected = batch.len();
                    self.commit(batch);
                    // Callers that come all the time must not keep the switch from being looked after.
                    if self.looked.elapsed() >= ROUND {
                        self.look_after_switch();
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.look_after_switch(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Makes a batch of changes: each by itself succeeds or leaves no trace; all that succeeded become durable together.
    fn commit(&mut self, batch: Vec<Box<dyn Job>>) {
        let world = self.world.clone();
        let mut draft = Draft::new(State::clone(&self.published.load()), &world);
        let mut outcomes: Vec<(Box<dyn Job>, Result<()>)> = Vec::with_capacity(batch.len());
        for mut job in batch {
            let (before, changes, events) = (draft.state.clone(), draft.changes.len(), draft.events.len());
            let outcome = run_guarded(job.as_mut(), &mut draft).and_then(|()| self.refuse_untrue(&before, &draft, changes));
            if outcome.is_err() {
                draft.state = before;
                draft.changes.truncate(changes);
                draft.events.truncate(events);
            }
            outcomes.push((job, outcome));
        }
        let durable = match draft.changes.is_empty() {
            true => Ok(()),
            false => self.journal.commit(&draft.changes, &draft.state).map_err(|error| not_durable(&error)),
        };
        tracing::debug!(callers = outcomes.len(), changes = draft.changes.len(), durable = durable.is_ok(), "a batch is done");
        if durable.is_ok() {
            let Draft { state, changes, events, .. } = draft;
            self.publish(state, &changes);
            for event in events {
                self.world.hub.publish(event);
            }
        }
        for (job, outcome) in outcomes {
            // Where nothing became durable, a refusal may have been for the sake of a change that never happened.
            job.finish(durable.clone().and(outcome));
        }
    }

    /// Where a switch makes documents true, what it cannot make true is refused by name.
    fn refuse_untrue(&self, before: &State, draft: &Draft<'_>, from: usize) -> Result<()> {
        match self.switch.moves_packets() {
            true => draft.changes[from..]
                .iter()
                .try_for_each(|change| crate::validate::truth::check(change, before, &draft.state, draft.world.machine.as_ref())),
            false => Ok(()),
        }
    }

    fn publish(&mut self, mut state: State, changes: &[Change]) {
        if self.behind {
            self.published.store(Arc::new(state));
            self.catch_up();
            return;
        }
        let orders: Vec<Order> = changes.iter().filter_map(order).collect();
        self.tell(&mut state, &orders);
        self.published.store(Arc::new(state));
    }

    /// Tells the switch, and notes what it could not do.
    fn tell(&mut self, state: &mut State, orders: &[Order]) {
        if orders.is_empty() {
            return;
        }
        for (order, outcome) in orders.iter().zip(self.switch.apply_all(orders)) {
            match outcome {
                Ok(()) => _ = self.complaints.remove(&order.object()),
                Err(error) => self.fell_behind(state, order, &error),
            }
        }
    }

    /// A switch that failed before, or is another one by now, is told again.
    fn look_after_switch(&mut self) {
        self.looked = Instant::now();
        let changed = self.switch.instance().map_or(true, |instance| instance != self.instance);
        if self.behind || changed {
            self.catch_up();
        }
    }

    /// Compares the switch with the state and applies the difference.
    fn catch_up(&mut self) {
        let mut state = State::clone(&self.published.load());
        state.degraded.clear();
        self.behind = false;
        match self.switch.instance().and_then(|instance| Ok((instance, self.switch.inventory()?))) {
            Ok((instance, inventory)) => {
                self.silent = false;
                self.instance = instance;
                let orders = switch::difference(&state, &inventory);
                self.tell(&mut state, &orders);
                self.switch.settled();
            }
            Err(error) => {
                // Said once, not every second.
                if !std::mem::replace(&mut self.silent, true) {
                    tracing::warn!(%error, "the switch does not answer; it is told everything when it does");
                }
                self.behind = true;
            }
        }
        self.published.store(Arc::new(state));
    }

    fn fell_behind(&mut self, state: &mut State, order: &Order, error: &switch::SwitchError) {
        let (kind, id) = order.object();
        // It is told again every second; what stays the same is said once.
        if self.complaints.insert((kind, id), error.0.clone()).as_ref() != Some(&error.0) {
            tracing::warn!(%error, %id, kind = kind.name(), "the switch could not do what it was told; it is told again");
        }
        self.behind = true;
        if kind == Kind::Network && matches!(order, Order::Put(_)) {
            state.degraded.insert(id);
        }
    }
}

/// Gathers what one fsync is to carry. Callers that were answered together tend to come back together, so as many as last
/// time are waited for, but only for a fraction of what the fsync takes.
fn gather(first: Box<dyn Job>, jobs: &Receiver<Box<dyn Job>>, expected: usize) -> Vec<Box<dyn Job>> {
    let mut batch = vec![first];
    batch.extend(jobs.try_iter().take(BATCH - 1));
    let deadline = Instant::now() + PATIENCE;
    while batch.len() < expected {
        match jobs.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(job) => batch.push(job),
            Err(_) => break,
        }
    }
    batch
}

/// Runs a job. A fault in it is that caller's alone: the draft is restored as after any failure, and the service goes on.
fn run_guarded(job: &mut dyn Job, draft: &mut Draft<'_>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| job.run(draft))).unwrap_or_else(|_| {
        let cause = "the service met a fault of its own; nothing was changed";
        Err(Error::Unexpected(detail(cause).remedy("report it with the log of hnsd and the request")))
    })
}

fn order(change: &Change) -> Option<Order> {
    match change {
        Change::Put(record) => Some(Order::put(record)),
        Change::Remove(kind, id) => Some(Order::Remove(*kind, *id)),
        Change::ManagementMacs(_) => None,
    }
}

fn not_durable(error: &JournalError) -> Error {
    let is_full = matches!(error, JournalError::Io { error, .. } if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge));
    let code = if is_full { Error::DiskFull } else { Error::WriteFault };
    let cause = format!("nothing was changed: {error}");
    code(detail(cause).remedy("make room in the state directory, or see why it cannot be written"))
}
