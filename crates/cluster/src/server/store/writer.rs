//! The one thread that changes the state.
//!
//! It takes whatever has queued up, does it on a draft, makes the batch durable with one fsync, publishes the new state, and
//! only then answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use arc_swap::ArcSwap;
use journal::Journal;
use tokio::sync::{oneshot, watch};

use super::draft::Draft;
use super::entry;
use super::state::State;
use crate::server::status::{Failure, Result};

/// How many changes one fsync may carry.
const BATCH: usize = 512;

/// A change waiting to be made.
pub(super) trait Job: Send {
    /// Makes the change on a draft.
    fn run(&mut self, draft: &mut Draft) -> Result<()>;

    /// Answers the caller.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// Makes a job of an operation, and the answer to wait for.
pub(super) fn job<T: Send + 'static>(
    operation: impl FnOnce(&mut Draft) -> Result<T> + Send + 'static,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Typed { operation: Some(operation), answer: None, reply }), answer)
}

struct Typed<T, F> {
    operation: Option<F>,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnOnce(&mut Draft) -> Result<T> + Send> Job for Typed<T, F> {
    fn run(&mut self, draft: &mut Draft) -> Result<()> {
        if let Some(operation) = self.operation.take() {
            self.answer = Some(operation(draft)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { answer, reply, .. } = *self;
        let lost = || Failure::internal("the answer was lost");
        // A caller that hung up does not want its answer; the change stands.
        _ = reply.send(outcome.and_then(|()| answer.ok_or_else(lost)));
    }
}

/// The thread's own things.
pub(super) struct Writer {
    journal: Journal,
    published: Arc<ArcSwap<State>>,
    announce: watch::Sender<u64>,
}

impl Writer {
    pub(super) fn new(journal: Journal, published: Arc<ArcSwap<State>>, announce: watch::Sender<u64>) -> Self {
        Self { journal, published, announce }
    }

    /// Makes changes until nobody can ask for any more.
    pub(super) fn run(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(BATCH - 1));
            self.commit(batch);
        }
    }

    /// Makes a batch of changes: each by itself succeeds or leaves no trace; all that succeeded become durable together.
    fn commit(&mut self, batch: Vec<Box<dyn Job>>) {
        let mut draft = Draft::new(State::clone(&self.published.load()));
        let mut outcomes = Vec::with_capacity(batch.len());
        for mut job in batch {
            let mark = draft.mark();
            let outcome = run_guarded(job.as_mut(), &mut draft);
            if outcome.is_err() {
                draft.go_back(mark);
            }
            outcomes.push((job, outcome));
        }
        let durable = self.keep(draft);
        for (job, outcome) in outcomes {
            // Where nothing became durable, a refusal may have been for the sake of a change that never happened.
            job.finish(durable.clone().and(outcome));
        }
    }

    /// Makes a draft durable and publishes it.
    fn keep(&mut self, mut draft: Draft) -> Result<()> {
        if draft.events.is_empty() {
            return Ok(());
        }
        let floor = draft.has_forgotten.then(|| draft.state.revision());
        if let Some(floor) = floor {
            draft.state.set_floor(floor);
        }
        let written = self.journal.commit(&draft.state, |frame| {
            draft.events.iter().for_each(|event| entry::write_event(frame, event));
            floor.into_iter().for_each(|floor| entry::write_floor(frame, floor));
        });
        written.map_err(|error| {
            tracing::warn!(%error, "changes could not be made durable");
            Failure::unavailable(format!("nothing was changed: {error}"))
        })?;
        let revision = draft.state.revision();
        self.published.store(Arc::new(draft.state));
        _ = self.announce.send(revision);
        Ok(())
    }
}

/// Runs a job. A fault in it is that caller's alone: the draft is restored as after any failure, and the server goes on.
fn run_guarded(job: &mut dyn Job, draft: &mut Draft) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| job.run(draft)))
        .unwrap_or_else(|_| Err(Failure::internal("the server met a fault of its own; nothing was changed")))
}
