//! The store: one value with all objects, changed by one thread, read by everybody without a lock.

mod draft;
mod entry;
mod history;
mod state;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use journal::{Content, Journal, JournalError};
use tokio::sync::watch;

use super::status::{Failure, Result};
use writer::{Job, Writer};

pub(crate) use draft::{Draft, put_off};
pub(crate) use history::{Event, EventKind};
pub(crate) use state::{Key, Labels, State, Stored};

/// The store of one server.
pub(crate) struct Store {
    published: Arc<ArcSwap<State>>,
    jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    revisions: watch::Receiver<u64>,
}

impl Store {
    /// Opens the store in a directory, or one that is gone with the process.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, JournalError> {
        let (journal, state) = match directory {
            Some(directory) => Journal::open::<State>(directory)?,
            None => (Journal::in_memory(), State::empty()),
        };
        let (announce, revisions) = watch::channel(state.revision());
        let published = Arc::new(ArcSwap::from_pointee(state));
        let (sender, receiver) = mpsc::channel();
        let mut writer = Writer::new(journal, published.clone(), announce);
        let thread = std::thread::Builder::new().name("api-writer".into()).spawn(move || writer.run(&receiver));
        let thread = thread.map_err(|error| JournalError::Io { doing: "start the writer".into(), error })?;
        Ok(Self { published, jobs: Mutex::new(Some(sender)), writer: Mutex::new(Some(thread)), revisions })
    }

    /// Renames a state file that cannot be read.
    pub(crate) fn set_aside(directory: &Path) -> Result<std::path::PathBuf, JournalError> {
        Journal::set_aside(directory, State::FORMAT)
    }

    /// Everything as it is now.
    pub(crate) fn state(&self) -> Arc<State> {
        self.published.load_full()
    }

    /// Tells when something has changed.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revisions.clone()
    }

    /// Makes a change. The answer comes when it is durable.
    pub(crate) async fn change<T: Send + 'static>(&self, operation: impl FnOnce(&mut Draft) -> Result<T> + Send + 'static) -> Result<T> {
        let (job, answer) = writer::job(operation);
        let stopping = || Failure::unavailable("the server is stopping");
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        match sent {
            true => answer.await.unwrap_or_else(|_| Err(stopping())),
            false => Err(stopping()),
        }
    }

    /// Finishes the changes under way and takes no more.
    pub(crate) fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            _ = writer.join();
        }
    }
}
