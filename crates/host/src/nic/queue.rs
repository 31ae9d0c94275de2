//! A bounded queue of frames that can be waited on.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};
use wire::{Encapsulation, Frame, Offload};

/// A frame that waits, in as many bytes as it has.
#[derive(Debug)]
pub(super) struct Stored {
    bytes: Vec<u8>,
    offload: Offload,
    pub(super) encapsulation: Option<Encapsulation>,
}

impl Stored {
    /// Keeps a frame, in a buffer that was used before.
    pub(super) fn new(mut buffer: Vec<u8>, frame: &Frame, encapsulation: Option<&Encapsulation>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(frame.bytes());
        Self { bytes: buffer, offload: frame.offload, encapsulation: encapsulation.copied() }
    }

    /// Puts the frame into a buffer that it can be delivered or sent from.
    pub(super) fn restore(&self, frame: &mut Frame) {
        frame.fill(&self.bytes);
        frame.offload = self.offload;
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    capacity: usize,
    /// Readable while there are frames.
    event: EventFd,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Stored>,
    spare: Vec<Vec<u8>>,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { state: Mutex::default(), capacity, event })
    }

    // A panic elsewhere leaves the queue whole, as every change of it is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame at the end; `WouldBlock` if the queue is full.
    pub(super) fn push(&self, frame: &Frame, encapsulation: Option<&Encapsulation>) -> io::Result<()> {
        let mut state = self.state();
        if state.frames.len() >= self.capacity {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let buffer = state.spare.pop().unwrap_or_default();
        state.frames.push_back(Stored::new(buffer, frame, encapsulation));
        if state.frames.len() == 1 {
            self.event.write(1)?;
        }
        Ok(())
    }

    /// Takes the first frame out, into this buffer. The outer answer says whether there was one.
    pub(super) fn pop(&self, frame: &mut Frame) -> Option<Option<Encapsulation>> {
        let mut state = self.state();
        let stored = state.frames.pop_front()?;
        if state.frames.is_empty() {
            // It was readable until now, so this resets it and cannot fail.
            _ = self.event.read();
        }
        stored.restore(frame);
        state.spare.push(stored.bytes);
        Some(stored.encapsulation)
    }

    /// What to wait on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
