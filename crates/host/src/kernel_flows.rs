//! The unified flow table in the kernel: a map of flows, and the programs at the switch's ends of NICs that repeat what stands in it.
//!
//! The programs are in `bpf/flows.bpf.c`, built into `bpf/flows.bpf.o`, which is kept beside it so that nobody needs a compiler for them. Keys and
//! values are laid out here as they are there. The engine is the only one who writes flows; the kernel only counts in them.
//!
//! Programs stay attached when this process ends, and hold their maps, so that known flows go on without it.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray};
use aya::programs::tc::{self, NlOptions, TcAttachOptions, TcError};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfError, EbpfLoader};

/// What stands in for a packet's flow: the words of the engine's key, with the number of the link in place of the port.
pub type KernelKey = [u64; 8];

/// Both programs run first on their links, and alone.
const PRIORITY: u16 = 1;

/// The programs as they were built.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/flows.bpf.o");

/// An entry also holds only while the third of its ports is as it was.
pub const FLAG_PAST: u8 = 1;

/// What is known about the packets of one flow, and what they have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelFlow {
    /// The switch's end of the NIC that receives them.
    pub to: u32,
    /// The largest IP packet that may pass.
    pub mtu: u16,
    /// Which parts of the headers change.
    pub parts: u8,
    /// [`FLAG_PAST`] or nothing.
    pub flags: u8,
    /// The ports whose generations count: of the sender, of the receiver, and the one that answers go past.
    pub ports: [u32; 3],
    /// The generations that it was decided under.
    pub generations: [u32; 3],
    /// The new addresses of the frame, destination first.
    pub macs: [u8; 12],
    /// The new ports, as on the wire.
    pub source_port: [u8; 2],
    /// As above.
    pub destination_port: [u8; 2],
    /// The new addresses, as on the wire; of IPv4 the first four bytes count.
    pub source: [u8; 16],
    /// As above.
    pub destination: [u8; 16],
    /// How many packets have passed.
    pub packets: u64,
    /// How many bytes.
    pub bytes: u64,
    /// When the last one did: nanoseconds of the kernel's coarse clock since it was started.
    pub seen: u64,
    /// All TCP flags that came by.
    pub tcp_flags: u64,
}

// SAFETY: plain numbers without padding between them, all of whose bits may be anything.
#[allow(unsafe_code)]
unsafe impl aya::Pod for KernelFlow {}

// A change of the layout has to be made on both sides.
const _: () = assert!(size_of::<KernelFlow>() == 112 && align_of::<KernelFlow>() == 8);

/// What became of packets: how many never left the kernel, and why others went up to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Forwarded by the kernel.
    pub forwarded: u64,
    /// Not in the table.
    pub unknown: u64,
    /// Policy has changed since.
    pub stale: u64,
    /// The first of a TCP connection.
    pub opening: u64,
    /// Not TCP or UDP in plain IP: fragments, ICMP, options, ARP, and what is damaged.
    pub odd: u64,
    /// Larger than the way they would go.
    pub large: u64,
    /// While everything goes by the engine.
    pub paused: u64,
}

/// Why flows cannot be in the kernel.
#[derive(Debug)]
pub struct KernelFlowsError {
    doing: String,
    cause: String,
    remedy: Option<&'static str>,
}

impl KernelFlowsError {
    fn new(doing: impl Into<String>, cause: &(dyn std::error::Error + 'static)) -> Self {
        Self { doing: doing.into(), remedy: remedy(cause), cause: chain(cause) }
    }
}

impl fmt::Display for KernelFlowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.doing, self.cause)?;
        self.remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl std::error::Error for KernelFlowsError {}

/// An error with all its causes, of which the innermost says the most.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error).chain(causes).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn remedy(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    match causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).find_map(io::Error::raw_os_error)? {
        libc::EPERM | libc::EACCES => {
            Some("it takes CAP_BPF and CAP_NET_ADMIN on the machine itself, which root has outside of user namespaces")
        }
        libc::ENOSYS | libc::EINVAL => Some("the kernel lacks what it takes; Linux 5.15 has it"),
        _ => None,
    }
}

/// How much the table may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLimits {
    /// Flows.
    pub flows: u32,
    /// Ports.
    pub ports: u32,
}

/// The table.
pub struct KernelFlows(Mutex<Inner>);

struct Inner {
    programs: Ebpf,
    flows: HashMap<MapData, KernelKey, KernelFlow>,
    generations: Array<MapData, u32>,
    links: HashMap<MapData, u32, u32>,
    paused: Array<MapData, u32>,
    ways: PerCpuArray<MapData, u64>,
}

impl fmt::Debug for KernelFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelFlows").finish_non_exhaustive()
    }
}

impl KernelFlows {
    /// Brings the programs and an empty table into the kernel.
    pub fn load(limits: KernelLimits) -> Result<Self, KernelFlowsError> {
        let failed = |error: EbpfError| KernelFlowsError::new("bring the flow table into the kernel", &error);
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("flows", limits.flows).map_max_entries("generations", limits.ports);
        // Two links to a port.
        loader.map_max_entries("links", limits.ports.saturating_mul(2));
        let mut programs = loader.load(OBJECT).map_err(failed)?;
        for name in ["nic", "engine"] {
            let loaded = program(&mut programs, name).and_then(|program| program.load());
            loaded.map_err(|error| KernelFlowsError::new(format!("load the program `{name}` into the kernel"), &error))?;
        }
        let inner = Inner::new(programs).map_err(|error| KernelFlowsError::new("find the maps of the flow table", &error))?;
        Ok(Self(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The maps are the kernel's, and whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the switch's end of a NIC with the TAP device by which the engine reads and writes: what is not known goes up, what the engine
    /// sends goes to the NIC. Both are links of the calling thread's namespace, each with its number.
    pub fn join(&self, nic: (&str, u32), tap: (&str, u32)) -> Result<(), KernelFlowsError> {
        let inner = &mut *self.lock();
        let joined = inner.links.insert(nic.1, tap.1, 0).and_then(|()| inner.links.insert(tap.1, nic.1, 0));
        joined.map_err(|error| KernelFlowsError::new(format!("join {} and {}", nic.0, tap.0), &error))?;
        attach(&mut inner.programs, "engine", tap.0)?;
        attach(&mut inner.programs, "nic", nic.0)
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

    /// Takes a flow out of the table, and answers what was known of it last.
    pub fn remove(&self, key: &KernelKey) -> Option<KernelFlow> {
        let inner = &mut *self.lock();
        let flow = inner.flows.get(key, 0).ok()?;
        inner.flows.remove(key).ok().map(|()| flow)
    }

    /// A flow of the table.
    pub fn get(&self, key: &KernelKey) -> Option<KernelFlow> {
        self.lock().flows.get(key, 0).ok()
    }

    /// Says what the generation of a port is. Flows that were decided under another are not forwarded by the kernel any more.
    pub fn set_generation(&self, port: u32, generation: u32) -> Result<(), KernelFlowsError> {
        let set = self.lock().generations.set(port, generation, 0);
        set.map_err(|error| KernelFlowsError::new(format!("tell the kernel of port {port}"), &error))
    }

    /// Has everything go by the engine, or no longer.
    pub fn pause(&self, is_paused: bool) -> Result<(), KernelFlowsError> {
        let set = self.lock().paused.set(0, u32::from(is_paused), 0);
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
    fn new(mut programs: Ebpf) -> Result<Self, MapError> {
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| MapError::InvalidName { name: name.to_owned() });
        let (flows, generations, links) = (map("flows")?, map("generations")?, map("links")?);
        let (paused, ways) = (map("paused")?, map("ways")?);
        Ok(Self {
            flows: flows.try_into()?,
            generations: generations.try_into()?,
            links: links.try_into()?,
            paused: paused.try_into()?,
            ways: ways.try_into()?,
            programs,
        })
    }
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, ProgramError> {
    programs.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()
}

/// Attaches a program where a link's packets come in, for as long as the link lives.
fn attach(programs: &mut Ebpf, name: &str, link: &str) -> Result<(), KernelFlowsError> {
    let failed = |error: &(dyn std::error::Error + 'static)| KernelFlowsError::new(format!("attach the program `{name}` to {link}"), error);
    match tc::qdisc_add_clsact(link) {
        Ok(()) => {}
        Err(error) if is_there(&error) => {}
        Err(error) => return Err(failed(&error)),
    }
    // That of a process before us, which has other maps.
    _ = tc::qdisc_detach_program(link, TcAttachType::Ingress, name);
    let attached = (|| {
        let program = program(programs, name)?;
        let options = TcAttachOptions::Netlink(NlOptions { priority: PRIORITY, ..NlOptions::default() });
        let id = program.attach_with_options(link, TcAttachType::Ingress, options)?;
        program.take_link(id)
    })();
    // Whoever drops it detaches it.
    attached.map(std::mem::forget).map_err(|error| failed(&error))
}

/// Whether the queue that programs are attached to is there already.
fn is_there(error: &TcError) -> bool {
    let source = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |cause| cause.source());
    matches!(error, TcError::AlreadyAttached)
        || source.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|error| error.raw_os_error() == Some(libc::EEXIST))
}
