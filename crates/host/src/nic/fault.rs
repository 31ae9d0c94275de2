//! A bad wire around a NIC: it loses, repeats, delays and reorders frames.
//!
//! Given the same seed, the same frames and the same times, it does the same again. Each direction draws its own numbers, so
//! that what happens to frames one way does not depend on how many go the other way.
//!
//! Delayed frames of both directions are released by the receiving half, when it is called after they are due; its file
//! descriptor is readable then. With a clock that is not the machine's, call it whenever that clock has moved.

mod random;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use wire::{Encapsulation, Frame};

use super::queue::Stored;
use super::{Deliver, Nic, Receiver, Sender};
use random::Random;

/// What a wire does to frames of one direction. The chances are from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The chance that a frame is lost.
    pub loss: f64,
    /// The chance that it arrives twice.
    pub duplication: f64,
    /// The chance that it is held back, and so overtaken by those behind it.
    pub reordering: f64,
    /// For how long it is held back.
    pub held_back: Duration,
    /// How long every frame takes.
    pub delay: Duration,
    /// How much longer it may take, evenly spread. This reorders as well.
    pub jitter: Duration,
}

/// What a wire does in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultOptions {
    /// To frames that the NIC receives.
    pub inbound: Faults,
    /// To frames that it sends.
    pub outbound: Faults,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// Says how much time has passed since some instant.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Puts a bad wire around a NIC.
pub fn wrap(nic: Nic, options: &FaultOptions, clock: Clock) -> io::Result<Nic> {
    let inbound = Line::new(options.inbound, options.seed)?;
    let outbound = Line::new(options.outbound, !options.seed)?;
    let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for fd in [Some(inbound.timer.as_fd()), Some(outbound.timer.as_fd()), nic.receiver.fd()].into_iter().flatten() {
        poll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    let outbound = Arc::new(Mutex::new(outbound));
    let sender = Arc::new(FaultSender { inner: nic.sender, line: outbound, clock });
    let receiver = FaultReceiver { inner: nic.receiver, sender: sender.clone(), line: inbound, poll, frame: Frame::default() };
    Ok(Nic { receiver: Box::new(receiver), sender })
}

/// One direction.
struct Line {
    faults: Faults,
    random: Random,
    late: BinaryHeap<Reverse<Late>>,
    /// Frames so far, by which frames that are due at once keep their order.
    count: u64,
    /// Expires when the first frame is due.
    timer: TimerFd,
}

impl Line {
    fn new(faults: Faults, seed: u64) -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        Ok(Self { faults, random: Random::new(seed), late: BinaryHeap::new(), count: 0, timer })
    }

    /// When the copies of a frame arrive, counted from now: none if it is lost.
    fn arrivals(&mut self) -> [Option<Duration>; 2] {
        let Faults { loss, duplication, reordering, held_back, delay, jitter } = self.faults;
        if self.random.chance(loss) {
            return [None, None];
        }
        let copies = if self.random.chance(duplication) { 2 } else { 1 };
        let mut arrivals = [None, None];
        for arrival in &mut arrivals[..copies] {
            let held_back = if self.random.chance(reordering) { held_back } else { Duration::ZERO };
            *arrival = Some(delay + jitter.mul_f64(self.random.fraction()) + held_back);
        }
        arrivals
    }

    /// Passes a frame on at once, or keeps it until it is due.
    fn admit(&mut self, now: Duration, frame: &mut Frame, encapsulation: Option<&Encapsulation>, pass: &mut Deliver<'_>) {
        for after in self.arrivals().into_iter().flatten() {
            if after.is_zero() {
                pass(frame, encapsulation);
            } else {
                self.count += 1;
                self.late.push(Reverse(Late {
                    due: now + after,
                    number: self.count,
                    stored: Stored::new(Vec::new(), frame, encapsulation),
                }));
            }
        }
    }

    /// The first frame that is due, into this buffer. The outer answer says whether there was one.
    fn release(&mut self, now: Duration, frame: &mut Frame) -> Option<Option<Encapsulation>> {
        let first = self.late.peek().is_some_and(|Reverse(late)| late.due <= now);
        let Reverse(late) = first.then(|| self.late.pop()).flatten()?;
        late.stored.restore(frame);
        Some(late.stored.encapsulation)
    }

    fn set_timer(&self, now: Duration) -> io::Result<()> {
        let Some(Reverse(first)) = self.late.peek() else {
            return Ok(self.timer.unset()?);
        };
        // A time of zero would switch the timer off.
        let rest = first.due.saturating_sub(now).max(Duration::from_nanos(1));
        Ok(self.timer.set(Expiration::OneShot(TimeSpec::from_duration(rest)), TimerSetTimeFlags::empty())?)
    }
}

/// A frame on its way.
struct Late {
    due: Duration,
    number: u64,
    stored: Stored,
}

impl Late {
    fn order(&self) -> (Duration, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for Late {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Late {}

impl PartialOrd for Late {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Late {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

struct FaultReceiver {
    inner: Box<dyn Receiver>,
    sender: Arc<FaultSender>,
    line: Line,
    /// Readable when a timer is, or the NIC inside.
    poll: Epoll,
    frame: Frame,
}

impl Receiver for FaultReceiver {
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let Self { inner, sender, line, frame, .. } = self;
        let now = (sender.clock)();
        sender.release(now, frame)?;
        let mut delivered = 0;
        let mut deliver = |frame: &mut Frame, encapsulation: Option<&Encapsulation>| {
            delivered += 1;
            deliver(frame, encapsulation);
        };
        for _ in 0..budget {
            let Some(encapsulation) = line.release(now, frame) else {
                break;
            };
            deliver(frame, encapsulation.as_ref());
        }
        inner.receive(budget, &mut |frame, encapsulation| line.admit(now, frame, encapsulation, &mut deliver))?;
        line.set_timer(now)?;
        Ok(delivered)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poll.0.as_fd())
    }
}

struct FaultSender {
    inner: Arc<dyn Sender>,
    line: Arc<Mutex<Line>>,
    clock: Clock,
}

impl FaultSender {
    // A panic elsewhere leaves the line whole, as every change of it is one step.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is due. What the NIC inside refuses is lost; its sender has been told otherwise long ago.
    fn release(&self, now: Duration, frame: &mut Frame) -> io::Result<()> {
        let mut line = self.line();
        while let Some(encapsulation) = line.release(now, frame) {
            _ = self.inner.send(frame, encapsulation.as_ref());
        }
        line.set_timer(now)
    }
}

impl Sender for FaultSender {
    fn send(&self, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> io::Result<()> {
        let now = (self.clock)();
        let mut line = self.line();
        let mut result = Ok(());
        line.admit(now, frame, encapsulation, &mut |frame, encapsulation| result = self.inner.send(frame, encapsulation));
        line.set_timer(now)?;
        result
    }
}
