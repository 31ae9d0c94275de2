//! Closing NICs beside everything else.
//!
//! The kernel frees a device only when every processor has forgotten it, which takes tens of milliseconds; many devices at once take
//! hardly longer than one. Neither the chassis nor a worker can wait for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::attachment::Attachment;

/// How many are closed at a time. More than that wait for their turn where they are.
const AT_A_TIME: usize = 32;

/// A worker may hold the device for as long as it is busy with packets.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// Closes NICs.
#[derive(Clone, Debug, Default)]
pub(super) struct Closer {
    busy: Arc<AtomicUsize>,
}

impl Closer {
    /// Closes a NIC, and returns before that is done.
    pub(super) fn close(&self, nic: Attachment) {
        if self.busy.fetch_add(1, Ordering::Relaxed) >= AT_A_TIME {
            return self.finish(nic);
        }
        let closer = self.clone();
        let started = thread::Builder::new().name("closer".to_owned()).spawn(move || closer.finish(nic));
        if let Err(error) = started {
            // The NIC went with the thread that was not to be.
            self.busy.fetch_sub(1, Ordering::Relaxed);
            tracing::debug!(%error, "a NIC is closed without a thread");
        }
    }

    /// Whoever has the last handle of a device waits for the kernel, so that is to be us.
    fn finish(&self, nic: Attachment) {
        let start = Instant::now();
        while nic.is_held_elsewhere() && start.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
        }
        nic.close();
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
