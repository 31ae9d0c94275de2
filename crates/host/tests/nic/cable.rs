//! A switch with two ports: what one NIC receives the other sends.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use host::nic::{Nic, Receiver, Sender};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wire::{Encapsulation, Frame};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// One end of a cable: a NIC, and what it is to push before frames.
pub(crate) struct End {
    pub(crate) nic: Nic,
    pub(crate) encapsulation: Option<Encapsulation>,
}

impl From<Nic> for End {
    fn from(nic: Nic) -> Self {
        Self { nic, encapsulation: None }
    }
}

/// What a cable has seen, by direction: from the first end and from the second.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) largest: [AtomicUsize; 2],
    pub(crate) frames: [AtomicUsize; 2],
    pub(crate) refused: AtomicUsize,
}

/// Carries frames both ways until it is dropped.
pub(crate) struct Cable {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub(crate) seen: Arc<Seen>,
}

impl Cable {
    pub(crate) fn new(one: impl Into<End>, other: impl Into<End>) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let (one, other) = (one.into(), other.into());
        let carry = {
            let (stop, seen) = (stop.clone(), seen.clone());
            move || carry(one, other, &stop, &seen)
        };
        Self { stop, thread: Some(thread::spawn(carry)), seen }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(matches!(joined, Some(Ok(()))), "the cable broke");
        }
    }
}

fn carry(one: End, other: End, stop: &AtomicBool, seen: &Seen) {
    let (mut from_one, mut from_other) = (one.nic.receiver, other.nic.receiver);
    while !stop.load(Ordering::Relaxed) {
        let there = pass(from_one.as_mut(), other.nic.sender.as_ref(), other.encapsulation.as_ref(), seen, 0);
        let back = pass(from_other.as_mut(), one.nic.sender.as_ref(), one.encapsulation.as_ref(), seen, 1);
        if there + back == 0 {
            wait(&[from_one.as_ref(), from_other.as_ref()], Duration::from_millis(20));
        }
    }
}

fn pass(from: &mut dyn Receiver, to: &dyn Sender, encapsulation: Option<&Encapsulation>, seen: &Seen, way: usize) -> usize {
    let deliver = &mut |frame: &mut Frame, _: Option<&Encapsulation>| {
        seen.largest[way].fetch_max(frame.len(), Ordering::Relaxed);
        seen.frames[way].fetch_add(1, Ordering::Relaxed);
        if to.send(frame, encapsulation).is_err() {
            seen.refused.fetch_add(1, Ordering::Relaxed);
        }
    };
    from.receive(64, deliver).expect("the NIC is there")
}

/// Waits until one of these has something, or for so long.
pub(crate) fn wait(receivers: &[&dyn Receiver], at_most: Duration) {
    let fds = receivers.iter().filter_map(|receiver| receiver.fd());
    let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let timeout = PollTimeout::try_from(at_most).expect("a short time");
    poll(&mut fds, timeout).expect("poll");
}

/// Receives until a frame is as wanted, and answers it with what was popped.
pub(crate) fn expect(receiver: &mut dyn Receiver, wanted: impl Fn(&Frame) -> bool) -> (Frame, Option<Encapsulation>) {
    let start = Instant::now();
    let mut found = None;
    while found.is_none() {
        assert!(start.elapsed() < PATIENCE, "the frame did not arrive");
        let delivered = receiver.receive(1, &mut |frame, encapsulation| {
            if found.is_none() && wanted(frame) {
                found = Some((frame.clone(), encapsulation.copied()));
            }
        });
        if delivered.expect("the NIC is there") == 0 {
            wait(&[receiver], Duration::from_millis(20));
        }
    }
    found.expect("the loop has ended")
}

/// Receives for a moment, and answers all frames.
pub(crate) fn collect(receiver: &mut dyn Receiver, time: Duration) -> Vec<Frame> {
    let start = Instant::now();
    let mut frames = Vec::new();
    while start.elapsed() < time {
        let delivered = receiver.receive(64, &mut |frame, _| frames.push(frame.clone()));
        if delivered.expect("the NIC is there") == 0 {
            wait(&[receiver], Duration::from_millis(10));
        }
    }
    frames
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The receiver's descriptor is readable now.
pub(crate) fn is_readable(receiver: &dyn Receiver) -> bool {
    let fd = receiver.fd().expect("it can be waited on");
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).expect("poll") == 1
}
