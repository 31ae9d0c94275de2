//! Workers: threads that read from NICs, let the switch decide, and write to NICs. Each runs a batch to its end.

mod patience;

use std::collections::HashMap;
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
use wire::{Frame, Ip};

use self::patience::{Next, Patience};
use super::capture::Captures;
use super::error::Error;
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
    pub(super) fn start(count: usize, spin: Duration, switch: Arc<Switch>) -> Result<Self, Error> {
        let (events, waiting) = sync_channel(EVENTS);
        let shared = Shared {
            switch,
            outlets: Outlets::default(),
            captures: Captures::default(),
            malformed: Malformed::default(),
            start: Clock::now(),
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
    receivers: HashMap<PortId, Box<dyn Receiver>>,
    switch: Arc<Switch>,
    sink: Outward,
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
            for event in &events[..ready] {
                match event.data() {
                    WAKE if !self.obey() => return,
                    WAKE => {}
                    port => self.receive(PortId(port as u32)),
                }
            }
        }
    }

    /// Waits until something is there.
    fn wait(&mut self, events: &mut [EpollEvent]) -> nix::Result<usize> {
        let mut timeout = EpollTimeout::ZERO;
        let mut since = None;
        loop {
            match self.epoll.wait(events, timeout) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(ready) => {
                    self.patience.ended(since.map_or(Duration::ZERO, |since: Clock| since.elapsed()));
                    return Ok(ready);
                }
                Err(error) => return Err(error),
            }
            timeout = match self.patience.after(since.get_or_insert_with(Clock::now).elapsed()) {
                Next::Look => EpollTimeout::ZERO,
                Next::Sleep => EpollTimeout::NONE,
            };
            if timeout == EpollTimeout::ZERO {
                std::thread::yield_now();
            }
        }
    }

    /// Does what the commands say; `false` to stop.
    fn obey(&mut self) -> bool {
        _ = self.wake.read();
        while let Ok(command) = self.orders.try_recv() {
            match command {
                Command::Add(port, receiver) => self.add(port, receiver),
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
        self.receivers.insert(port, receiver);
    }

    fn remove(&mut self, port: PortId) {
        if let Some(receiver) = self.receivers.remove(&port)
            && let Some(fd) = receiver.fd()
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
        let Some(receiver) = self.receivers.get_mut(&port) else { return };
        let (sink, switch, patience) = (&mut self.sink, &self.switch, &mut self.patience);
        let now = sink.shared.now();
        let outcome = receiver.receive(BUDGET, &mut |frame, encapsulation| {
            patience.saw(frame.len());
            sink.process(switch, now, port, frame, encapsulation);
        });
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
        // A frame that is still to be cut is not kept: its sender will send again.
        let frame = if frame.offload == wire::Offload::NONE { frame.bytes().to_vec() } else { Vec::new() };
        _ = self.shared.events.try_send(Event::Unresolved(Unresolved { underlay, next_hop, port, frame }));
    }

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}
