//! Workers: threads that read from NICs, let the switch decide, and write to NICs. Each runs a batch to its end.

mod patience;
mod shaper;

use std::cell::Cell;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver as CommandReceiver, Sender as CommandSender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use host::nic::{Nic, Receiver};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use vfp::{Egress, Instant, PortId, Sink, Switch, UnderlayId};
use wire::{Frame, Headers, Ip, Offload, segment};

use self::patience::{Next, Patience};
use self::shaper::Shaper;
use super::capture::Captures;
use super::error::Error;
use super::offload::KernelOffload;
use super::ports::{Malformed, Outlets, Table};
use super::resolver::{Event, Unresolved};

/// How many frames one NIC may send before the next has its turn.
const BUDGET: usize = 64;

/// The event of the wake-up call.
const WAKE: u64 = u64::MAX;

/// How many events may wait to be noticed.
const EVENTS: usize = 1024;

enum Command {
    Add(PortId, Box<dyn Receiver>),
    /// Read no more bytes of a second than these from a NIC.
    Limit(PortId, Option<NonZeroU64>),
    /// Process a frame as if its NIC had sent it just now.
    Inject(PortId, Vec<u8>),
    Remove(PortId, SyncSender<()>),
    Stop,
}

/// What workers and the rest of vswitchd share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) switch: Arc<Switch>,
    pub(super) outlets: Outlets,
    pub(super) captures: Captures,
    pub(super) malformed: Malformed,
    /// When the process began; moments count from there.
    pub(super) start: Clock,
    /// The kernel's table of flows, if there is one.
    pub(super) kernel: Option<Arc<KernelOffload>>,
    events: SyncSender<Event>,
}

impl Shared {
    /// Where events go.
    pub(super) fn events(&self) -> SyncSender<Event> {
        self.events.clone()
    }

    /// The moment.
    pub(super) fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// All workers.
pub(super) struct Workers {
    pub(super) shared: Shared,
    handles: Vec<Handle>,
    /// Which worker has which port.
    placed: HashMap<PortId, usize>,
    /// What workers cannot do themselves; taken by the resolver.
    pub(super) events: Option<std::sync::mpsc::Receiver<Event>>,
}

struct Handle {
    commands: Mutex<CommandSender<Command>>,
    wake: Arc<EventFd>,
    ports: AtomicUsize,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    fn tell(&self, command: Command) {
        let sent = self.commands.lock().unwrap_or_else(PoisonError::into_inner).send(command);
        if sent.is_ok() {
            _ = self.wake.write(1);
        }
    }
}

impl Workers {
    /// Starts the threads.
    pub(super) fn start(
        count: usize,
        spin: Duration,
        start: Clock,
        switch: Arc<Switch>,
        kernel: Option<Arc<KernelOffload>>,
    ) -> Result<Self, Error> {
        let (events, waiting) = sync_channel(EVENTS);
        let shared = Shared {
            switch,
            outlets: Outlets::default(),
            captures: Captures::new(kernel.clone()),
            malformed: Malformed::default(),
            start,
            kernel,
            events,
        };
        let handles = (0..count.max(1)).map(|number| start_worker(number, spin, &shared)).collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { shared, handles, placed: HashMap::new(), events: Some(waiting) })
    }

    /// Puts a NIC behind a port.
    pub(super) fn attach(&mut self, port: PortId, nic: Nic) {
        self.shared.outlets.put(port, nic.sender);
        let least = (0..self.handles.len()).min_by_key(|at| self.handles[*at].ports.load(Ordering::Relaxed)).unwrap_or(0);
        self.handles[least].ports.fetch_add(1, Ordering::Relaxed);
        self.placed.insert(port, least);
        self.handles[least].tell(Command::Add(port, nic.receiver));
    }

    /// Bounds how many bytes a second the NIC of a port may send.
    pub(super) fn limit(&self, port: PortId, rate: Option<NonZeroU64>) {
        if let Some(at) = self.placed.get(&port) {
            self.handles[*at].tell(Command::Limit(port, rate));
        }
    }

    /// Takes the NIC away from a port. It is closed when this returns.
    pub(super) fn detach(&mut self, port: PortId) {
        self.shared.outlets.remove(port);
        let Some(at) = self.placed.remove(&port) else { return };
        self.handles[at].ports.fetch_sub(1, Ordering::Relaxed);
        let (done, wait) = sync_channel(1);
        self.handles[at].tell(Command::Remove(port, done));
        _ = wait.recv_timeout(Duration::from_secs(5));
    }

    /// Lets a frame be processed as if the NIC of its port had sent it.
    pub(super) fn inject(&self, port: PortId, frame: Vec<u8>) {
        if let Some(at) = self.placed.get(&port) {
            self.handles[*at].tell(Command::Inject(port, frame));
        }
    }

    /// Stops the threads.
    pub(super) fn stop(&mut self) {
        for handle in &mut self.handles {
            handle.tell(Command::Stop);
            if let Some(thread) = handle.thread.take() {
                _ = thread.join();
            }
        }
    }
}

fn start_worker(number: usize, spin: Duration, shared: &Shared) -> Result<Handle, Error> {
    let failed = |error: nix::errno::Errno| Error::io("start a worker", error.into());
    let wake = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map_err(failed)?);
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
    epoll.add(wake.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, WAKE)).map_err(failed)?;
    let (commands, orders) = channel();
    let mut worker = Worker {
        epoll,
        wake: wake.clone(),
        orders,
        patience: Patience::new(spin),
        receivers: HashMap::new(),
        resting: Vec::new(),
        switch: shared.switch.clone(),
        sink: Outward { shared: shared.clone(), table: Arc::default(), scratch: Frame::default() },
    };
    let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || worker.run());
    let thread = thread.map_err(|error| Error::io("start a worker", error))?;
    Ok(Handle { commands: Mutex::new(commands), wake, ports: AtomicUsize::new(0), thread: Some(thread) })
}

struct Worker {
    epoll: Epoll,
    wake: Arc<EventFd>,
    orders: CommandReceiver<Command>,
    patience: Patience,
    receivers: HashMap<PortId, Reading>,
    /// NICs that have sent more than they may, with when they are read again.
    resting: Vec<(Clock, PortId)>,
    switch: Arc<Switch>,
    sink: Outward,
}

/// A NIC that is read, and how fast it may be.
struct Reading {
    receiver: Box<dyn Receiver>,
    shaper: Option<Shaper>,
}

impl Worker {
    fn run(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let ready = match self.wait(&mut events) {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::error!(%error, "a worker cannot wait for packets");
                    return;
                }
            };
            self.sink.table = self.sink.shared.outlets.load().clone();
            self.wake_rested();
            for event in &events[..ready] {
                match event.data() {
                    WAKE if !self.obey() => return,
                    WAKE => {}
                    port => self.receive(PortId(port as u32)),
                }
            }
        }
    }

    /// Waits until something is there, or a NIC has rested.
    fn wait(&mut self, events: &mut [EpollEvent]) -> nix::Result<usize> {
        let mut timeout = EpollTimeout::ZERO;
        let mut since = None;
        loop {
            match self.epoll.wait(events, timeout) {
                Ok(0) if self.resting.iter().any(|(until, _)| *until <= Clock::now()) => return Ok(0),
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(ready) => {
                    self.patience.ended(since.map_or(Duration::ZERO, |since: Clock| since.elapsed()));
                    return Ok(ready);
                }
                Err(error) => return Err(error),
            }
            timeout = match self.patience.after(since.get_or_insert_with(Clock::now).elapsed()) {
                Next::Look => EpollTimeout::ZERO,
                Next::Sleep => self.until_rested(),
            };
            if timeout == EpollTimeout::ZERO {
                std::thread::yield_now();
            }
        }
    }

    /// How long to sleep: until the first NIC has rested. Milliseconds are what epoll counts in; rounded up, so as not to wake in vain.
    fn until_rested(&self) -> EpollTimeout {
        let Some(first) = self.resting.iter().map(|(until, _)| *until).min() else { return EpollTimeout::NONE };
        let millis = first.saturating_duration_since(Clock::now()).as_micros().div_ceil(1000);
        EpollTimeout::from(u16::try_from(millis).unwrap_or(u16::MAX))
    }

    /// Reads NICs again that have rested.
    fn wake_rested(&mut self) {
        if self.resting.is_empty() {
            return;
        }
        let now = Clock::now();
        for (_, port) in self.resting.extract_if(.., |(until, _)| *until <= now).collect::<Vec<_>>() {
            self.listen(port, EpollFlags::EPOLLIN);
        }
    }

    /// Does not read a NIC for a while.
    fn rest(&mut self, port: PortId, until: Clock) {
        self.listen(port, EpollFlags::empty());
        // A NIC that is going away may call all the same.
        self.resting.retain(|(_, resting)| *resting != port);
        self.resting.push((until, port));
    }

    fn listen(&self, port: PortId, flags: EpollFlags) {
        if let Some(fd) = self.receivers.get(&port).and_then(|reading| reading.receiver.fd())
            && let Err(error) = self.epoll.modify(fd, &mut EpollEvent::new(flags, u64::from(port.0)))
        {
            tracing::error!(%error, %port, "a NIC cannot be waited for");
        }
    }

    /// Does what the commands say; `false` to stop.
    fn obey(&mut self) -> bool {
        _ = self.wake.read();
        while let Ok(command) = self.orders.try_recv() {
            match command {
                Command::Add(port, receiver) => self.add(port, receiver),
                Command::Limit(port, rate) => {
                    if let Some(reading) = self.receivers.get_mut(&port) {
                        reading.shaper = rate.map(|rate| Shaper::new(rate, Clock::now()));
                    }
                }
                Command::Inject(port, bytes) => self.inject(port, &bytes),
                Command::Remove(port, done) => {
                    self.remove(port);
                    _ = done.send(());
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn add(&mut self, port: PortId, receiver: Box<dyn Receiver>) {
        if let Some(fd) = receiver.fd()
            && let Err(error) = self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(port.0)))
        {
            tracing::error!(%error, %port, "a NIC cannot be waited for");
        }
        self.receivers.insert(port, Reading { receiver, shaper: None });
    }

    fn remove(&mut self, port: PortId) {
        self.resting.retain(|(_, resting)| *resting != port);
        if let Some(reading) = self.receivers.remove(&port)
            && let Some(fd) = reading.receiver.fd()
        {
            _ = self.epoll.delete(fd);
        }
        // The table holds the sending half.
        self.sink.table = self.sink.shared.outlets.load().clone();
    }

    fn inject(&mut self, port: PortId, bytes: &[u8]) {
        let now = self.sink.shared.now();
        self.sink.process(&self.switch, now, port, &mut Frame::from_bytes(bytes), None);
    }

    fn receive(&mut self, port: PortId) {
        let Some(Reading { receiver, shaper }) = self.receivers.get_mut(&port) else { return };
        let (sink, switch, patience) = (&mut self.sink, &self.switch, &mut self.patience);
        let now = sink.shared.now();
        let bytes = Cell::new(0);
        let mut deliver = |frame: &mut Frame, encapsulation: Option<&wire::Encapsulation>| {
            bytes.set(bytes.get() + frame.len());
            patience.saw(frame.len());
            sink.process(switch, now, port, frame, encapsulation);
        };
        let Some(shaper) = shaper else {
            let outcome = receiver.receive(BUDGET, &mut deliver);
            self.note(port, outcome);
            return;
        };
        let clock = Clock::now();
        let mut outcome = Ok(0);
        // One frame at a time, as each may use up what is left.
        for _ in 0..BUDGET {
            if let Some(rest) = shaper.rest(clock) {
                self.rest(port, clock + rest);
                break;
            }
            outcome = receiver.receive(1, &mut deliver);
            shaper.sent(bytes.take());
            if !matches!(outcome, Ok(1..)) {
                break;
            }
        }
        self.note(port, outcome);
    }

    /// Gives a NIC up that has failed.
    fn note(&mut self, port: PortId, outcome: std::io::Result<usize>) {
        if let Err(error) = outcome {
            tracing::warn!(%error, %port, "a NIC has failed; it is not read any more");
            self.remove(port);
            _ = self.sink.shared.events.try_send(Event::Failed(port));
        }
    }
}

/// Where frames go that leave the switch: to NICs.
struct Outward {
    shared: Shared,
    table: Arc<Table>,
    scratch: Frame,
}

impl Outward {
    fn process(&mut self, switch: &Switch, now: Instant, port: PortId, frame: &mut Frame, encapsulation: Option<&wire::Encapsulation>) {
        if !self.shared.captures.is_on() {
            switch.process(now, port, frame, encapsulation, self);
            return;
        }
        let taken = self.shared.captures.take(frame);
        let verdict = switch.process(now, port, frame, encapsulation, self);
        self.shared.captures.arrived(switch, port, taken, &verdict);
    }
}

impl Sink for Outward {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        let Some(outlet) = self.table.get(egress.port.0 as usize).and_then(Option::as_ref) else {
            return;
        };
        if self.shared.captures.is_on() {
            self.shared.captures.left(egress, frame);
        }
        if outlet.sender.send(frame, egress.encapsulation.as_ref()).is_err() {
            outlet.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn resolve(&mut self, underlay: UnderlayId, next_hop: Ip, port: PortId, frame: &Frame) {
        let frame = finished(frame).unwrap_or_default();
        _ = self.shared.events.try_send(Event::Unresolved(Unresolved { underlay, next_hop, port, frame }));
    }

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

/// The bytes of a frame with nothing left to do by hardware, to be kept for later. One that is still to be cut is not kept: its sender will
/// send again.
fn finished(frame: &Frame) -> Option<Vec<u8>> {
    if frame.offload == Offload::NONE {
        return Some(frame.bytes().to_vec());
    }
    let mut copy = Frame::default();
    copy.copy_from(frame);
    let headers = Headers::parse(copy.bytes()).ok()?;
    segment::complete_checksum(&mut copy, &headers).ok().filter(|()| copy.offload.segmentation.is_none())?;
    Some(copy.bytes().to_vec())
}
