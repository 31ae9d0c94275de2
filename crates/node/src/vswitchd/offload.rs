//! Flows in the kernel: what the engine has decided is put into the kernel's own table, as far as it can reach both ends.

mod adoption;
mod entry;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant as Clock;

use host::clock;
use host::kernel_flows::{
    KernelFlow, KernelFlows, KernelFlowsError, KernelKey, KernelLimits, KernelOpening, KernelOwner, Ways, opening_key,
};
use ipnet::IpNet;
use vfp::{Counted, Instant, Limits, Offload, OffloadFlow, OffloadKey, OffloadOpened, OffloadOpening, PortId};
use wire::{Encapsulation, FlowId, Ip, TunnelKind};

use entry::{Exit, key_at};

/// How many openings there can be. The oldest makes room: whoever misses it asks the engine, which says it again.
const OPENINGS: u32 = 16_384;

/// The kernel's table, and what is behind which port.
#[derive(Debug)]
pub(super) struct KernelOffload {
    flows: KernelFlows,
    ends: RwLock<Ends>,
    openings: Mutex<Openings>,
    beginning: Beginning,
    /// Whether the kernel could once not be told of a change of policy. It has forwarded nothing by itself since, and never will again.
    is_behind: AtomicBool,
}

/// The openings that are in the kernel, each once, and in the order they came.
#[derive(Debug, Default)]
struct Openings {
    order: VecDeque<KernelKey>,
    /// Those of one key, by the generations that they were decided under.
    known: HashMap<KernelKey, [u32; 3]>,
}

impl Openings {
    /// Whether one is there that was decided under these generations.
    fn has(&self, key: &KernelKey, generations: [u32; 3]) -> bool {
        self.known.get(key) == Some(&generations)
    }

    /// Notes one. Answers which has to make room for it.
    fn note(&mut self, key: KernelKey, generations: [u32; 3], most: usize) -> Option<KernelKey> {
        if self.known.insert(key, generations).is_some() {
            return None;
        }
        self.order.push_back(key);
        let oldest = if self.order.len() > most { self.order.pop_front() } else { None };
        oldest.inspect(|oldest| _ = self.known.remove(oldest))
    }

    /// Forgets the last one: there was no room for it.
    fn forget(&mut self, key: &KernelKey) {
        self.known.remove(key);
        self.order.retain(|other| other != key);
    }
}

/// What is behind ports, and the other way round.
#[derive(Debug, Default)]
struct Ends {
    behind: HashMap<PortId, Behind>,
    ports: HashMap<u32, PortId>,
    /// How each adapter's network is reached: prefixes with their gateways, if they have one.
    routes: HashMap<u32, Vec<(IpNet, Option<IpAddr>)>>,
}

/// What is behind a port.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// What it is in keys: a link, or what stands for one.
    link: u32,
    place: Place,
    /// Whether it may send only so much: that is counted where all its packets come by, which is not in the kernel.
    is_limited: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// A pod's NIC, with its end at the switch.
    Nic,
    /// An adapter.
    Uplink,
    /// A tunnel by an adapter.
    Tunnel { adapter: u32, local: IpAddr, port: u16 },
}

/// One moment on two clocks: the kernel's, and that of the switch.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    kernel: u64,
    switch: u64,
}

impl Beginning {
    /// A moment of the kernel's clock on that of the switch.
    fn moment(self, kernel: u64) -> Instant {
        Instant((self.switch + kernel / 1000).saturating_sub(self.kernel / 1000))
    }
}

impl Ends {
    fn add(&mut self, port: PortId, link: u32, place: Place) {
        self.behind.insert(port, Behind { link, place, is_limited: false });
        self.ports.insert(link, port);
    }

    /// Where packets leave that go to a port, if the kernel can do that.
    fn exit(&self, to: &Behind, encapsulation: Option<&Encapsulation>) -> Option<Exit> {
        match (to.place, encapsulation) {
            (Place::Nic, None) => Some(Exit::Nic(to.link)),
            (Place::Uplink, None) => Some(Exit::Adapter(to.link)),
            // Over IPv6 the outer checksum would have to be computed, which only the engine's sockets do.
            (Place::Tunnel { adapter, .. }, Some(outer)) if outer.local.is_v4() && outer.remote.is_v4() => {
                Some(Exit::Tunnel(adapter, self.next_hop(adapter, outer.remote)?))
            }
            _ => None,
        }
    }

    fn next_hop(&self, adapter: u32, remote: Ip) -> Option<Ip> {
        let address = IpAddr::from(remote);
        let ways = self.routes.get(&adapter)?.iter().filter(|(prefix, _)| prefix.contains(&address));
        let (_, gateway) = ways.max_by_key(|(prefix, _)| prefix.prefix_len())?;
        Some(gateway.map_or(remote, Ip::from)).filter(|hop| hop.is_v4())
    }

    /// The engine's key that the kernel knows as this one.
    fn engine_key(&self, key: &KernelKey) -> Option<OffloadKey> {
        let mut ours = *key;
        ours[0] = u64::from(self.ports.get(&((key[0] >> 32) as u32))?.0) << 32 | u64::from(key[0] as u32);
        Some(ours)
    }

    /// What packets of a flow came with, if they came by a tunnel.
    fn popped(&self, key: &OffloadKey, remote: Ip) -> Option<Encapsulation> {
        let behind = self.behind.get(&PortId((key[0] >> 32) as u32))?;
        let Place::Tunnel { local, port, .. } = behind.place else { return None };
        Some(Encapsulation { kind: TunnelKind::Vxlan, vni: key[0] as u32, local: Ip::from(local), remote, port })
    }
}

impl KernelOffload {
    /// Brings an empty table into the kernel, for the process that has a socket. The clock of the switch has counted from `start`.
    pub(super) fn load(limits: Limits, start: Clock, socket: &Path) -> Result<Self, KernelFlowsError> {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let limits = KernelLimits { flows: number(limits.flows), openings: OPENINGS, ports: number(limits.ports) };
        let flows = KernelFlows::load(limits, KernelOwner::at(socket))?;
        let switch = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let beginning = Beginning { kernel: clock::since_boot(), switch };
        Ok(Self { flows, ends: RwLock::default(), openings: Mutex::default(), beginning, is_behind: AtomicBool::new(false) })
    }

    /// The table itself.
    pub(super) fn table(&self) -> &KernelFlows {
        &self.flows
    }

    /// Has flows of a port go by the kernel, whose NIC has this end at the switch.
    pub(super) fn add(&self, port: PortId, nic: u32) {
        self.write().add(port, nic, Place::Nic);
    }

    /// Has flows of an adapter's port go by the kernel.
    pub(super) fn add_uplink(&self, port: PortId, adapter: u32) {
        self.write().add(port, adapter, Place::Uplink);
    }

    /// Has flows of a tunnel's port go by the kernel. `link` stands for it in keys.
    pub(super) fn add_tunnel(&self, port: PortId, link: u32, adapter: u32, (local, udp_port): (IpAddr, u16)) {
        self.write().add(port, link, Place::Tunnel { adapter, local, port: udp_port });
    }

    /// Whether another tunnel has the same UDP port, and so the same device.
    pub(super) fn has_other_tunnel(&self, at: (IpAddr, u16)) -> bool {
        let is_other = |place: &Place| matches!(*place, Place::Tunnel { local, port, .. } if port == at.1 && local != at.0);
        self.read().behind.values().any(|behind| is_other(&behind.place))
    }

    /// The port is gone, and its flows with it.
    pub(super) fn remove_port(&self, port: PortId) {
        let ends = &mut *self.write();
        if let Some(behind) = ends.behind.remove(&port) {
            ends.ports.remove(&behind.link);
        }
    }

    /// Says how an adapter's network is reached. Answers whether that is new.
    pub(super) fn set_routes(&self, adapter: u32, routes: Vec<(IpNet, Option<IpAddr>)>) -> bool {
        let ends = &mut *self.write();
        let is_new = ends.routes.get(&adapter) != Some(&routes);
        ends.routes.insert(adapter, routes);
        is_new
    }

    /// Says whether a port may send only so much. Answers whether that is new.
    pub(super) fn limit(&self, port: PortId, is_limited: bool) -> bool {
        let mut ends = self.write();
        let Some(behind) = ends.behind.get_mut(&port) else { return false };
        std::mem::replace(&mut behind.is_limited, is_limited) != is_limited
    }

    /// What became of packets.
    pub(super) fn ways(&self) -> Ways {
        self.flows.ways()
    }

    /// Has everything go by the engine, or no longer.
    pub(super) fn pause(&self, is_paused: bool) {
        let is_paused = is_paused || self.is_behind.load(Ordering::Relaxed);
        if let Err(error) = self.flows.pause(is_paused) {
            tracing::warn!(%error, is_paused, "the kernel goes on as before");
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Ends> {
        self.ends.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Ends> {
        self.ends.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that the kernel knows the engine's by.
    fn key(&self, key: &OffloadKey) -> Option<KernelKey> {
        let link = self.read().behind.get(&PortId((key[0] >> 32) as u32))?.link;
        Some(key_at(key, link))
    }

    /// A flow as the kernel would have it, if it can.
    fn compiled(&self, flow: &OffloadFlow) -> Option<(KernelKey, KernelFlow)> {
        let ends = self.read();
        let [from, to] = flow.ports.map(|port| ends.behind.get(&port));
        let (from, to) = (from?, to?);
        // What goes back to where it came from has no way there past the link itself.
        if from.is_limited || from.link == to.link {
            return None;
        }
        let exit = ends.exit(to, flow.encapsulation.as_ref())?;
        let is_popped = matches!(from.place, Place::Tunnel { .. });
        Some((key_at(&flow.key, from.link), entry::entry(flow, exit, is_popped)))
    }

    /// Puts an opening into the kernel, unless it is a guess and there is one already.
    fn put_one_opening(&self, key: KernelKey, opening: &KernelOpening, is_guess: bool) {
        let openings = &mut *self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        let generations = opening.forward.generations;
        if is_guess && openings.has(&key, generations) {
            return;
        }
        if let Some(oldest) = openings.note(key, generations, OPENINGS as usize) {
            self.flows.remove_opening(&oldest);
        }
        if let Err(error) = self.flows.put_opening(&key, opening) {
            tracing::debug!(%error, "connections are opened by the engine");
            openings.forget(&key);
        }
    }

    fn counted_in(&self, flow: &KernelFlow) -> Counted {
        if flow.packets == 0 {
            return Counted::default();
        }
        Counted { packets: flow.packets, bytes: flow.bytes, at: self.beginning.moment(flow.seen), tcp_flags: flow.tcp_flags as u8 }
    }

    /// A connection that the kernel has opened, in the engine's words.
    fn told(&self, event: &host::kernel_flows::KernelOpened) -> Option<OffloadOpened> {
        let ends = self.read();
        let (key, reply_key) = (ends.engine_key(&event.key)?, ends.engine_key(&event.reply_key)?);
        let from_tunnel = matches!(ends.behind.get(&PortId((key[0] >> 32) as u32))?.place, Place::Tunnel { .. });
        let remote = entry::address(&event.remote, is_v4(&event.remote));
        let encapsulation = if from_tunnel { Some(ends.popped(&key, remote)?) } else { None };
        Some(OffloadOpened {
            key,
            reply_key: Some(reply_key),
            encapsulation,
            generations: Some(event.generations),
            translated: None,
            counted: [Counted::default(); 2],
        })
    }
}

/// Whether an address of the kernel is of IPv4: then all but its first four bytes are zeros. An IPv6 address of that form is none that a node has.
fn is_v4(address: &[u8; 16]) -> bool {
    address[4..] == [0; 12]
}

impl Offload for KernelOffload {
    fn put(&self, flow: &OffloadFlow) -> bool {
        let Some((key, entry)) = self.compiled(flow) else { return false };
        match self.flows.put(&key, &entry) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "a flow stays with the engine");
                false
            }
        }
    }

    fn remove(&self, key: &OffloadKey) -> Counted {
        let flow = self.key(key).and_then(|key| self.flows.take(&key));
        flow.map_or(Counted::default(), |flow| self.counted_in(&flow))
    }

    fn counted(&self, key: &OffloadKey) -> Counted {
        let flow = self.key(key).and_then(|key| self.flows.get(&key));
        flow.map_or(Counted::default(), |flow| self.counted_in(&flow))
    }

    fn set_generation(&self, port: PortId, generation: u32) {
        if let Err(error) = self.flows.set_generation(port.0, generation) {
            // What the kernel is not told it must not go on with.
            tracing::error!(%error, "everything goes by the engine from now on");
            self.is_behind.store(true, Ordering::Relaxed);
            self.pause(true);
        }
    }

    fn put_opening(&self, opening: &OffloadOpening) {
        let [Some(forward), Some(reply)] = [&opening.forward, &opening.reply].map(|flow| self.compiled(flow)) else { return };
        let key = forward.0;
        let (ways, choosing) = entry::openings([forward, reply], opening.choice.as_ref());
        let is_guess = !opening.is_answered;
        self.put_one_opening(opening_key(&key, opening.choice.map(|choice| choice.chosen)), &ways, is_guess);
        if let Some(choosing) = choosing {
            self.put_one_opening(opening_key(&key, None), &choosing, false);
        }
    }

    fn each_opened(&self, most: usize, tell: &mut dyn FnMut(&OffloadOpened)) -> bool {
        self.flows.each_opened(most, |event| match self.told(event) {
            Some(opened) => tell(&opened),
            // Its port is gone.
            None => [event.key, event.reply_key].iter().for_each(|key| self.flows.remove(key)),
        })
    }

    fn opened(&self) -> usize {
        self.flows.opened()
    }

    fn translated(&self, key: &OffloadKey) -> Option<FlowId> {
        let key = self.key(key)?;
        self.flows.get(&key).map(|flow| entry::translated(&key, &flow))
    }
}

#[cfg(test)]
mod tests;
