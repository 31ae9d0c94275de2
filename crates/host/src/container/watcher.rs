//! One thread that hears of everything that happens in all containers.

// A call has no safe wrapper; it says why it is sound.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;

use super::supervisor::Shared;

/// Stands for the watcher's own end among what is waited for.
const END: u64 = u64::MAX;

/// The thread and what it waits for. It ends when this is dropped.
pub(super) struct Watcher {
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

struct Waiting {
    epoll: Epoll,
    end: EventFd,
    /// By the process id of init, which is nobody else's until it is waited for.
    watched: Mutex<HashMap<u64, Watched>>,
}

struct Watched {
    shared: Arc<Shared>,
    process: OwnedFd,
}

impl Watcher {
    /// Starts with nothing to wait for.
    pub(super) fn start() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let end = EventFd::from_flags(nix::sys::eventfd::EfdFlags::EFD_CLOEXEC)?;
        epoll.add(&end, EpollEvent::new(EpollFlags::EPOLLIN, END))?;
        let waiting = Arc::new(Waiting { epoll, end, watched: Mutex::default() });
        let thread = thread::Builder::new().name("containers".into()).spawn({
            let waiting = Arc::clone(&waiting);
            move || waiting.run()
        })?;
        Ok(Self { waiting, thread: Some(thread) })
    }

    /// Waits for reports of a container and for its end, from now on.
    pub(super) fn watch(&self, shared: &Arc<Shared>) -> io::Result<()> {
        self.waiting.add(shared)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.waiting.end.write(1);
        // The last container may be dropped by one who hears of its end, in the thread itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Waiting {
    fn add(&self, shared: &Arc<Shared>) -> io::Result<()> {
        let process = open_process(shared.pid())?;
        let token = u64::from(shared.pid());
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        self.epoll.add(&shared.channel, EpollEvent::new(EpollFlags::EPOLLIN, token << 1))?;
        self.epoll.add(&process, EpollEvent::new(EpollFlags::EPOLLIN, (token << 1) | 1))?;
        watched.insert(token, Watched { shared: Arc::clone(shared), process });
        Ok(())
    }

    fn run(&self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                Err(errno) => return tracing::error!("containers are no longer watched: {errno}"),
            };
            for event in &events[..count] {
                match event.data() {
                    END => return,
                    data if data & 1 == 0 => self.take_report(data >> 1),
                    data => self.take_end(data >> 1),
                }
            }
        }
    }

    fn find(&self, token: u64) -> Option<Arc<Shared>> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.get(&token).map(|watched| Arc::clone(&watched.shared))
    }

    fn take_report(&self, token: u64) {
        if let Some(shared) = self.find(token)
            && !shared.take_report()
        {
            // Init has closed its end, so it is about to go; its end is waited for.
            let _ = self.epoll.delete(&shared.channel);
        }
    }

    fn take_end(&self, token: u64) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
        if let Some(Watched { shared, process }) = watched {
            let _ = self.epoll.delete(&process);
            // What it said last comes first.
            while has_input(&shared) && shared.take_report() {}
            let _ = self.epoll.delete(&shared.channel);
            shared.take_end();
        }
    }
}

fn has_input(shared: &Shared) -> bool {
    let mut waited = [PollFd::new(shared.channel.as_fd(), PollFlags::POLLIN)];
    poll(&mut waited, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// A descriptor that becomes readable when the process has ended.
pub(super) fn open_process(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers and touches no memory of ours.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(number) {
        // SAFETY: the kernel made the descriptor just now, and nobody else knows of it.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("epoll", &self.waiting.epoll.0.as_raw_fd()).finish()
    }
}
