//! What the switch needs to be told while it runs: neighbours' hardware addresses, changes of adapters, and the time.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::netlink::{Change, Monitor, Neighbour};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vfp::{PortId, UnderlayId};
use wire::Ip;

use super::adapter::Adapter;
use super::chassis::{self, Chassis};
use super::error::Error;
use super::worker::Shared;

/// Something that workers, or the kernel, leave to be done.
pub(super) enum Event {
    /// A packet waits for the hardware address of its next hop.
    Unresolved(Unresolved),
    /// The NIC of a port is gone.
    Failed(PortId),
    /// The kernel's network settings have changed.
    Changed(Vec<Change>),
    /// All there is to be told has been told.
    Settled,
}

/// A packet that waits for the hardware address of its next hop.
pub(super) struct Unresolved {
    pub(super) underlay: UnderlayId,
    pub(super) next_hop: Ip,
    pub(super) port: PortId,
    /// The packet, or nothing where it is not worth keeping.
    pub(super) frame: Vec<u8>,
}

/// How often old connections are looked for, and neighbours asked for again.
const ROUND: Duration = Duration::from_millis(250);

/// How many connections are looked at in one round.
const SWEEP: usize = 16_384;

/// How often a neighbour that is in use is confirmed.
const CONFIRM: Duration = Duration::from_secs(15);

/// How many packets may wait for one neighbour, and for how long.
const WAITING_MAX: usize = 16;
const WAITING: Duration = Duration::from_secs(3);

/// The threads.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            _ = thread.join();
        }
    }
}

/// Starts them.
pub(super) fn start(chassis: Arc<Mutex<Chassis>>) -> Result<Running, Error> {
    let (shared, events) = {
        let mut chassis = chassis::lock(&chassis);
        (chassis.shared(), chassis.workers.events.take())
    };
    let events = events.ok_or_else(|| Error::Message("the resolver runs already".into()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (monitor, shared_of_opener) = (Monitor::open()?, shared.clone());
    let (following, resolving, sink) = (stop.clone(), stop.clone(), shared.events());
    let mut resolver = Resolver { chassis, shared, neighbours: HashMap::new(), confirmed: Instant::now() };
    let mut threads = vec![
        thread("monitor", Box::new(move || follow(&monitor, &sink, &following)))?,
        thread("resolver", Box::new(move || resolver.run(&events, &resolving)))?,
    ];
    threads.extend(opener(&shared_of_opener, &stop)?);
    Ok(Running { stop, threads })
}

fn thread(name: &str, task: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, Error> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(task);
    spawned.map_err(|error| Error::io(format!("start the thread {name}"), error))
}

/// How long connections may wait that the kernel has opened: taken up together, they cost less.
const TOGETHER: Duration = Duration::from_millis(10);

/// Takes up connections that the kernel has opened, if it may.
fn opener(shared: &Shared, stop: &Arc<AtomicBool>) -> Result<Option<JoinHandle<()>>, Error> {
    let Some(kernel) = &shared.kernel else { return Ok(None) };
    let opened = kernel.table().opened_fd().map_err(|error| Error::io("wait for what the kernel opens", error))?;
    let (shared, stop) = (shared.clone(), stop.clone());
    let take_up = move || {
        // Whose connections these are waits for none of it.
        host::priority::give_way();
        while !stop.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(opened.as_fd(), PollFlags::POLLIN)];
            if poll(&mut ready, PollTimeout::try_from(ROUND).unwrap_or(PollTimeout::ZERO)).is_ok_and(|ready| ready > 0) {
                std::thread::sleep(TOGETHER);
                shared.switch.take_up(shared.now());
            }
        }
    };
    thread("opener", Box::new(take_up)).map(Some)
}

fn follow(monitor: &Monitor, sink: &SyncSender<Event>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)];
        _ = poll(&mut ready, PollTimeout::try_from(ROUND).unwrap_or(PollTimeout::ZERO));
        match monitor.receive() {
            Ok(changes) if !changes.is_empty() => _ = sink.send(Event::Changed(changes)),
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "changes of the machine are not followed any more");
                return;
            }
        }
    }
}

struct Resolver {
    chassis: Arc<Mutex<Chassis>>,
    shared: Shared,
    neighbours: HashMap<(UnderlayId, Ip), Wanted>,
    confirmed: Instant,
}

/// A neighbour that packets go to.
struct Wanted {
    asked: Instant,
    known: bool,
    waiting: Vec<(PortId, Vec<u8>)>,
}

impl Resolver {
    fn run(&mut self, events: &Receiver<Event>, stop: &AtomicBool) {
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match events.recv_timeout(ROUND) {
                Ok(Event::Unresolved(packet)) => self.want(packet),
                Ok(Event::Failed(port)) => chassis::lock(&self.chassis).nic_failed(port),
                Ok(Event::Changed(changes)) => self.note(changes),
                Ok(Event::Settled) => self.settle(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if swept.elapsed() >= ROUND {
                swept = Instant::now();
                self.shared.switch.sweep(self.shared.now(), SWEEP);
                self.tidy();
            }
        }
    }

    fn want(&mut self, packet: Unresolved) {
        let key = (packet.underlay, packet.next_hop);
        let now = Instant::now();
        let first = !self.neighbours.contains_key(&key);
        let wanted = self.neighbours.entry(key).or_insert_with(|| Wanted { asked: now, known: false, waiting: Vec::new() });
        if wanted.waiting.len() < WAITING_MAX && !packet.frame.is_empty() {
            wanted.waiting.push((packet.port, packet.frame));
        }
        if first || wanted.asked.elapsed() >= Duration::from_secs(1) {
            wanted.asked = now;
            self.ask(key);
        }
    }

    /// Lets the kernel find a neighbour, which tells of it when it has; or takes what it knows already.
    fn ask(&mut self, (underlay, next_hop): (UnderlayId, Ip)) {
        let address = std::net::IpAddr::from(next_hop);
        let known = {
            let chassis = chassis::lock(&self.chassis);
            let Some(adapter) = chassis.adapters.values().find(|adapter| adapter.site.underlay == underlay) else { return };
            let known = adapter.netlink().neighbours(adapter.index()).unwrap_or_default();
            if let Err(error) = adapter.netlink().resolve(adapter.index(), address) {
                tracing::debug!(%error, %address, "a neighbour could not be asked for");
            }
            known.into_iter().find(|neighbour| neighbour.address == address && neighbour.mac.is_some() && !neighbour.failed)
        };
        if let Some(neighbour) = known {
            self.learn(underlay, &neighbour);
        }
    }

    /// Flows that the kernel has forwarded until now become ours. They lead to neighbours that it knows, and so must we.
    fn settle(&mut self) {
        if !self.shared.kernel.as_ref().is_some_and(|kernel| kernel.table().has_previous()) {
            return;
        }
        let known: Vec<(UnderlayId, Vec<Neighbour>)> = {
            let chassis = chassis::lock(&self.chassis);
            let of = |adapter: &Adapter| (adapter.site.underlay, adapter.netlink().neighbours(adapter.index()).unwrap_or_default());
            chassis.adapters.values().map(of).collect()
        };
        for (underlay, neighbours) in known {
            for neighbour in neighbours.iter().filter(|neighbour| neighbour.mac.is_some() && !neighbour.failed) {
                let key = (underlay, Ip::from(neighbour.address));
                self.neighbours.entry(key).or_insert_with(|| Wanted { asked: Instant::now(), known: true, waiting: Vec::new() });
                self.learn(underlay, neighbour);
            }
        }
        chassis::lock(&self.chassis).adopt_flows();
    }

    fn note(&mut self, changes: Vec<Change>) {
        let adapters: Vec<(String, u32, UnderlayId)> = {
            let chassis = chassis::lock(&self.chassis);
            chassis.adapters.iter().map(|(name, adapter)| (name.clone(), adapter.index(), adapter.site.underlay)).collect()
        };
        let (mut changed, mut followed) = (BTreeSet::new(), BTreeSet::new());
        for change in changes {
            if let Change::LinkGone(link) = &change {
                chassis::lock(&self.chassis).link_gone(link.index);
            }
            let index = match &change {
                Change::Link(link) | Change::LinkGone(link) => link.index,
                Change::Address(index, _) | Change::AddressGone(index, _) => *index,
                Change::Route(route) | Change::RouteGone(route) => route.hops.first().map_or(0, |hop| hop.index),
                Change::Neighbour(neighbour) | Change::NeighbourGone(neighbour) => {
                    if let Some((_, _, underlay)) = adapters.iter().find(|(_, index, _)| *index == neighbour.index) {
                        let gone = matches!(change, Change::NeighbourGone(_));
                        self.learn(*underlay, &Neighbour { mac: neighbour.mac.filter(|_| !gone), ..neighbour.clone() });
                    }
                    continue;
                }
                Change::Lost => {
                    changed.extend(adapters.iter().map(|(name, ..)| name.clone()));
                    continue;
                }
            };
            changed.extend(adapters.iter().filter(|(_, own, _)| *own == index).map(|(name, ..)| name.clone()));
            if matches!(change, Change::Route(_) | Change::RouteGone(_)) {
                followed.insert(index);
            }
        }
        for name in changed {
            chassis::lock(&self.chassis).refresh_adapter(&name);
        }
        followed.into_iter().for_each(|index| self.follow_routes(index));
    }

    /// A route by the node's own vNIC has changed, which is one that the switch may take. Nothing else follows from it: the vNIC's other
    /// routes are ours.
    fn follow_routes(&self, vnic: u32) {
        let chassis = chassis::lock(&self.chassis);
        for adapter in chassis.adapters.values().filter(|adapter| adapter.vnic_index() == vnic) {
            if let Err(error) = adapter.refresh_underlay(&self.shared.switch) {
                tracing::warn!(%error, "the node's routes could not be followed");
            }
        }
    }

    fn learn(&mut self, underlay: UnderlayId, neighbour: &Neighbour) {
        let next_hop = Ip::from(neighbour.address);
        let Some(wanted) = self.neighbours.get_mut(&(underlay, next_hop)) else { return };
        let mac = neighbour.mac.filter(|_| !neighbour.failed);
        wanted.known = mac.is_some();
        if self.shared.switch.set_neighbour(underlay, next_hop, mac).is_err() {
            self.neighbours.remove(&(underlay, next_hop));
            return;
        }
        if mac.is_some() {
            let waiting = std::mem::take(&mut wanted.waiting);
            let chassis = chassis::lock(&self.chassis);
            waiting.into_iter().for_each(|(port, frame)| chassis.workers.inject(port, frame));
        }
    }

    /// Forgets neighbours that do not answer, and confirms those that did.
    fn tidy(&mut self) {
        self.neighbours.retain(|_, wanted| wanted.known || wanted.asked.elapsed() < WAITING);
        if self.confirmed.elapsed() >= CONFIRM {
            self.confirmed = Instant::now();
            let known: Vec<(UnderlayId, Ip)> = self.neighbours.keys().copied().collect();
            known.into_iter().for_each(|key| self.ask(key));
        }
    }
}
