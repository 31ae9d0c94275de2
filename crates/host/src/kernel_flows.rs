//! The unified flow table in the kernel: a map of flows, and the programs on links that repeat what stands in it.
//!
//! The programs are in `bpf/flows.bpf.c`, built into `bpf/flows.bpf.o`, which is kept beside it so that nobody needs a compiler for them. The engine
//! is the only one who says what becomes of packets; the kernel counts in flows, and opens connections where it was told how.
//!
//! Programs stay attached when this process ends, and hold their maps, so that known flows go on without it.

mod attach;
mod error;
mod layout;
mod previous;
mod take;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::{ProgramError, SchedClassifier, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfError, EbpfLoader};

pub use error::KernelFlowsError;
pub use layout::{
    BACKENDS, FLAG_AGAIN, FLAG_OUT, FLAG_PAST, FLAG_POPPED, FLAG_PUSH, FLAG_REPLY, KernelFlow, KernelKey, KernelOpened, KernelOpening,
    Ways, any_reply_key, opening_key,
};
pub use previous::{KernelOwner, Previous};

use layout::{KernelEnd, KernelTunnel};

/// The programs as they were built.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/flows.bpf.o");

/// Their names.
const PROGRAMS: [&str; 4] = ["nic", "uplink", "tunnel", "engine"];

/// How much the table may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLimits {
    /// Flows.
    pub flows: u32,
    /// Openings.
    pub openings: u32,
    /// Ports.
    pub ports: u32,
}

/// Where connections are counted that were opened, among what became of packets.
const OPENED: u32 = 7;

/// The table.
pub struct KernelFlows {
    inner: Mutex<Inner>,
    opened: Mutex<RingBuf<MapData>>,
    /// How many of the connections that the kernel has opened somebody was told of.
    told: AtomicU64,
    /// The place of our programs on links.
    priority: u16,
    previous: Mutex<Option<Previous>>,
}

struct Inner {
    programs: Ebpf,
    flows: HashMap<MapData, KernelKey, KernelFlow>,
    /// The same map once more.
    flows_fd: OwnedFd,
    openings: HashMap<MapData, KernelKey, KernelOpening>,
    generations: Array<MapData, u32>,
    links: HashMap<MapData, u32, u32>,
    tunnels: HashMap<MapData, KernelEnd, KernelTunnel>,
    state: Array<MapData, u64>,
    ways: PerCpuArray<MapData, u64>,
}

impl fmt::Debug for KernelFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelFlows").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are the kernel's, and whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A near end of tunnels: the VXLAN device that pops, the TAP device by which the engine reads what is not known, and what stands for a link in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTunnelEnd {
    /// The provider address.
    pub address: IpAddr,
    /// The UDP port.
    pub port: u16,
    /// The number of the TAP device.
    pub tap: u32,
    /// What stands for a link in keys.
    pub link: u32,
}

impl KernelTunnelEnd {
    fn key(&self) -> KernelEnd {
        let mut address = [0; 16];
        match self.address {
            IpAddr::V4(v4) => address[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => address = v6.octets(),
        }
        KernelEnd { address, port: u32::from(self.port) }
    }
}

impl KernelFlows {
    /// Brings the programs and an empty table into the kernel, and finds the one that the last process of this owner has left.
    pub fn load(limits: KernelLimits, owner: KernelOwner) -> Result<Self, KernelFlowsError> {
        let failed = |error: EbpfError| KernelFlowsError::new("bring the flow table into the kernel", &error);
        let previous = Previous::find(owner);
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("flows", limits.flows).map_max_entries("generations", limits.ports);
        loader.map_max_entries("openings", limits.openings);
        // Two links to a port.
        loader.map_max_entries("links", limits.ports.saturating_mul(2));
        let mut programs = loader.load(OBJECT).map_err(failed)?;
        for name in PROGRAMS {
            let loaded = program(&mut programs, name).and_then(|program| program.load());
            loaded.map_err(|error| KernelFlowsError::new(format!("load the program `{name}` into the kernel"), &error))?;
        }
        let behind = previous.as_ref().map(|previous| previous.priority + 1).filter(|next| attach::PRIORITIES.contains(next));
        let priority = behind.unwrap_or(*attach::PRIORITIES.start());
        // Where there is no place left behind it, it cannot go on until its flows are known here.
        let previous = previous.filter(|_| behind.is_some());
        let made = Inner::new(programs, owner.words(priority));
        let (inner, opened) = made.map_err(|error| KernelFlowsError::new("find the maps of the flow table", &error))?;
        Ok(Self { inner: Mutex::new(inner), opened: Mutex::new(opened), told: AtomicU64::new(0), priority, previous: Mutex::new(previous) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// The place of our programs on links, and that of the last process while those still forward.
    fn place(&self) -> (u16, Option<u16>) {
        (self.priority, lock(&self.previous).as_ref().map(|previous| previous.priority))
    }

    /// The table of the last process, if it is still in use. Whoever takes it has to see that its flows go on.
    pub fn take_previous(&self) -> Option<Previous> {
        lock(&self.previous).take()
    }

    /// Whether there is such a table that nobody has taken yet.
    pub fn has_previous(&self) -> bool {
        lock(&self.previous).is_some()
    }

    /// Joins the switch's end of a NIC with the TAP device by which the engine reads and writes: what is not known goes up, what the engine
    /// sends goes to the NIC. Both are links of the calling thread's namespace, each with its number.
    pub fn join(&self, nic: (&str, u32), tap: (&str, u32)) -> Result<(), KernelFlowsError> {
        let place = self.place();
        let inner = &mut *self.lock();
        let joined = inner.links.insert(nic.1, tap.1, 0).and_then(|()| inner.links.insert(tap.1, nic.1, 0));
        joined.map_err(|error| KernelFlowsError::new(format!("join {} and {}", nic.0, tap.0), &error))?;
        attach::attach(&mut inner.programs, "engine", tap, place)?;
        attach::attach(&mut inner.programs, "nic", nic, place)
    }

    /// Has what an adapter receives, and is not known, go up by a TAP device too. The adapter stays what it is to everybody else.
    pub fn join_uplink(&self, adapter: (&str, u32), tap: (&str, u32)) -> Result<(), KernelFlowsError> {
        attach::check_alone(adapter)?;
        let place = self.place();
        let inner = &mut *self.lock();
        let joined = inner.links.insert(adapter.1, tap.1, 0);
        joined.map_err(|error| KernelFlowsError::new(format!("join {} and {}", adapter.0, tap.0), &error))?;
        attach::attach(&mut inner.programs, "uplink", adapter, place)
    }

    /// Has what a VXLAN device pops for an end of tunnels, and is not known, go up by the end's TAP device.
    pub fn join_tunnel(&self, device: (&str, u32), end: &KernelTunnelEnd) -> Result<(), KernelFlowsError> {
        let place = self.place();
        let inner = &mut *self.lock();
        let tunnel = KernelTunnel { link: end.link, tap: end.tap };
        let joined = inner.links.insert(device.1, u32::from(end.port), 0).and_then(|()| inner.tunnels.insert(end.key(), tunnel, 0));
        joined.map_err(|error| KernelFlowsError::new(format!("join {} and its TAP device", device.0), &error))?;
        attach::attach(&mut inner.programs, "tunnel", device, place)
    }

    /// Leaves what comes in for an end of tunnels to whoever has a socket there.
    pub fn leave_out(&self, address: IpAddr, port: u16) -> Result<(), KernelFlowsError> {
        let end = KernelTunnelEnd { address, port, tap: 0, link: 0 };
        let set = self.lock().tunnels.insert(end.key(), KernelTunnel::default(), 0);
        set.map_err(|error| KernelFlowsError::new(format!("leave UDP port {port} out"), &error))
    }

    /// Forgets an end of tunnels.
    pub fn part_tunnel(&self, end: &KernelTunnelEnd) {
        // What is not there need not go.
        _ = self.lock().tunnels.remove(&end.key());
    }

    /// Takes our program away from an adapter.
    pub fn part_uplink(&self, adapter: (&str, u32)) {
        _ = self.lock().links.remove(&adapter.1);
        attach::detach(adapter.0, self.priority);
    }

    /// Takes the program of the process before us away from a link that has ours.
    pub fn relieve(&self, link: &str, previous: &Previous) {
        attach::detach(link, previous.priority);
    }

    /// Forgets links. Their programs go with them.
    pub fn part(&self, nic: u32, tap: u32) {
        let inner = &mut *self.lock();
        for link in [nic, tap] {
            // What is not there need not go.
            let _ = inner.links.remove(&link);
        }
    }

    /// Puts a flow into the table. It starts to count anew.
    pub fn put(&self, key: &KernelKey, flow: &KernelFlow) -> Result<(), KernelFlowsError> {
        self.lock().flows.insert(key, flow, 0).map_err(|error| KernelFlowsError::new("put a flow into the kernel", &error))
    }

    /// Takes a flow out of the table.
    pub fn remove(&self, key: &KernelKey) {
        _ = self.lock().flows.remove(key);
    }

    /// Takes a flow out of the table, as it was when it went: nothing is forwarded by it that is not counted in it.
    pub fn take(&self, key: &KernelKey) -> Option<KernelFlow> {
        let inner = &mut *self.lock();
        match take::take(inner.flows_fd.as_fd(), key) {
            Ok(flow) => Some(flow),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
            // An older kernel knows two steps only, between which a packet may pass uncounted.
            Err(_) => {
                let flow = inner.flows.get(key, 0).ok();
                _ = inner.flows.remove(key);
                flow
            }
        }
    }

    /// A flow of the table.
    pub fn get(&self, key: &KernelKey) -> Option<KernelFlow> {
        self.lock().flows.get(key, 0).ok()
    }

    /// Says what becomes of first packets.
    pub fn put_opening(&self, key: &KernelKey, opening: &KernelOpening) -> Result<(), KernelFlowsError> {
        self.lock().openings.insert(key, opening, 0).map_err(|error| KernelFlowsError::new("put an opening into the kernel", &error))
    }

    /// Says it no longer.
    pub fn remove_opening(&self, key: &KernelKey) {
        _ = self.lock().openings.remove(key);
    }

    /// Tells of connections that the kernel has opened since the last time, but not of more than so many. Answers whether that were all.
    pub fn each_opened(&self, most: usize, mut tell: impl FnMut(&KernelOpened)) -> bool {
        let ring = &mut *lock(&self.opened);
        for _ in 0..most {
            let Some(event) = ring.next() else { return true };
            self.told.fetch_add(1, Ordering::Relaxed);
            if let Some(opened) = KernelOpened::read(&event) {
                tell(&opened);
            }
        }
        false
    }

    /// How many connections the kernel has opened that nobody was told of yet, or a few less.
    pub fn opened(&self) -> usize {
        let opened: u64 = self.lock().ways.get(&OPENED, 0).map_or(0, |counts| counts.iter().sum());
        usize::try_from(opened.saturating_sub(self.told.load(Ordering::Relaxed))).unwrap_or(usize::MAX)
    }

    /// What to wait on until the kernel has opened a connection.
    pub fn opened_fd(&self) -> std::io::Result<OwnedFd> {
        lock(&self.opened).as_fd().try_clone_to_owned()
    }

    /// Says what the generation of a port is. Flows that were decided under another are not forwarded by the kernel any more.
    pub fn set_generation(&self, port: u32, generation: u32) -> Result<(), KernelFlowsError> {
        let set = self.lock().generations.set(port, generation, 0);
        set.map_err(|error| KernelFlowsError::new(format!("tell the kernel of port {port}"), &error))
    }

    /// Has everything go by the engine, or no longer.
    pub fn pause(&self, is_paused: bool) -> Result<(), KernelFlowsError> {
        let set = self.lock().state.set(0, u64::from(is_paused), 0);
        set.map_err(|error| KernelFlowsError::new("tell the kernel to wait", &error))
    }

    /// What became of all packets so far.
    pub fn ways(&self) -> Ways {
        let inner = self.lock();
        let count = |way: u32| inner.ways.get(&way, 0).map_or(0, |counts| counts.iter().sum());
        Ways {
            forwarded: count(0),
            unknown: count(1),
            stale: count(2),
            opening: count(3),
            odd: count(4),
            large: count(5),
            paused: count(6),
            opened: count(OPENED),
        }
    }

    /// Lets the kernel run its program for NICs on a packet as if link 1, which is the loopback of the calling thread's namespace, had brought
    /// it. Answers what the program says, and the packet as it leaves it. For tests.
    pub fn try_packet(&self, packet: &[u8]) -> Result<(u32, Vec<u8>), KernelFlowsError> {
        let failed = |error: ProgramError| KernelFlowsError::new("try a packet", &error);
        let inner = &mut *self.lock();
        let program = program(&mut inner.programs, "nic").map_err(failed)?;
        let mut after = vec![0; packet.len() + 256];
        let options = TestRunOptions { data_in: Some(packet), data_out: Some(&mut after), ..TestRunOptions::default() };
        let result = program.test_run(options).map_err(failed)?;
        after.truncate(result.data_size_out as usize);
        Ok((result.return_value, after))
    }
}

impl Inner {
    fn new(mut programs: Ebpf, owner: [u64; 4]) -> Result<(Self, RingBuf<MapData>), MapError> {
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| MapError::InvalidName { name: name.to_owned() });
        let opened = map("opened")?.try_into()?;
        let mut state: Array<MapData, u64> = map("state")?.try_into()?;
        for (at, word) in (1_u32..).zip(owner) {
            state.set(at, word, 0)?;
        }
        let (flows, openings, generations, links) = (map("flows")?, map("openings")?, map("generations")?, map("links")?);
        let (tunnels, ways) = (map("tunnels")?, map("ways")?);
        let flows_fd = match &flows {
            Map::HashMap(data) => data.fd().as_fd().try_clone_to_owned().ok(),
            _ => None,
        };
        let inner = Self {
            flows: flows.try_into()?,
            flows_fd: flows_fd.ok_or_else(|| MapError::InvalidName { name: "flows".to_owned() })?,
            openings: openings.try_into()?,
            generations: generations.try_into()?,
            links: links.try_into()?,
            tunnels: tunnels.try_into()?,
            state,
            ways: ways.try_into()?,
            programs,
        };
        Ok((inner, opened))
    }
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, ProgramError> {
    programs.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()
}
