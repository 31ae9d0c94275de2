//! Keys and values of the kernel's maps, laid out as `bpf/flows.bpf.c` reads them.

// The bytes of these values are the kernel's, which takes any.
#![allow(unsafe_code)]

/// What stands in for a packet's flow: the words of the engine's key, with the number of the link in place of the port.
pub type KernelKey = [u64; 8];

/// The transport ports of a key, of which the source port comes first.
const PORTS: usize = 5;

/// The frame's source address of a key, beside which two bytes are free.
const SOURCE_MAC: usize = 7;

/// An entry also holds only while the third of its ports is as it was.
pub const FLAG_PAST: u8 = 1;
/// Packets leave in VXLAN.
pub const FLAG_PUSH: u8 = 2;
/// Packets leave by an adapter.
pub const FLAG_OUT: u8 = 4;
/// Packets come by a tunnel, from the remote end that is named.
pub const FLAG_POPPED: u8 = 8;
/// Packets answer.
pub const FLAG_REPLY: u8 = 16;
/// A connection of that name which is over may begin again without asking.
pub const FLAG_AGAIN: u8 = 32;

/// How many backends an opening may choose from.
pub const BACKENDS: usize = 8;

/// What is known about the packets of one flow, and what they have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelFlow {
    /// The switch's end of the NIC that receives them, or the adapter by which they leave.
    pub to: u32,
    /// The largest IP packet that may pass.
    pub mtu: u16,
    /// Which parts of the headers change.
    pub parts: u8,
    /// What else holds: [`FLAG_PAST`] and its neighbours.
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
    /// The near end of the tunnel by which they leave.
    pub local: [u8; 16],
    /// The far end of the tunnel by which they leave or come.
    pub remote: [u8; 16],
    /// Who takes them there.
    pub next_hop: [u8; 16],
    /// The virtual network in which they leave.
    pub vni: u32,
    /// The UDP port of the tunnel, as on the wire.
    pub tunnel_port: [u8; 2],
    /// Nothing.
    pub unused: [u8; 2],
    /// How many packets have passed.
    pub packets: u64,
    /// How many bytes.
    pub bytes: u64,
    /// When the last one did: nanoseconds of the kernel's coarse clock since it was started.
    pub seen: u64,
    /// All TCP flags that came by since the last SYN.
    pub tcp_flags: u64,
}

// SAFETY: plain numbers without padding between them, all of whose bits may be anything.
unsafe impl aya::Pod for KernelFlow {}

/// What becomes of the first packets of connections from one address to another: both flows, but for the port that a connection is opened from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct KernelOpening {
    /// What answers are found by, but for the port.
    pub reply_key: KernelKey,
    /// The flow of the packets themselves.
    pub forward: KernelFlow,
    /// That of the answers.
    pub reply: KernelFlow,
    /// How many backends there are to choose from; then the flows are those of the openings of each.
    pub backends: u64,
    /// What the choice is mixed with.
    pub seed: u64,
    /// What stands for each backend in it.
    pub hashes: [u64; BACKENDS],
}

// SAFETY: as above.
unsafe impl aya::Pod for KernelOpening {}

// A change of the layout has to be made on both sides.
const _: () = assert!(size_of::<KernelFlow>() == 168 && align_of::<KernelFlow>() == 8);
const _: () = assert!(size_of::<KernelOpening>() == 480 && align_of::<KernelOpening>() == 8);

/// The near end of tunnels, as a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct KernelEnd {
    pub(super) address: [u8; 16],
    pub(super) port: u32,
}

// SAFETY: as above.
unsafe impl aya::Pod for KernelEnd {}

/// Where packets of a tunnel go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct KernelTunnel {
    pub(super) link: u32,
    pub(super) tap: u32,
}

// SAFETY: as above.
unsafe impl aya::Pod for KernelTunnel {}

/// A connection that the kernel has opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOpened {
    /// The flow of its first packet.
    pub key: KernelKey,
    /// That of the answers.
    pub reply_key: KernelKey,
    /// The generations of its ports that it was opened under.
    pub generations: [u32; 2],
    /// The node that its first packet came from by a tunnel; else zeros.
    pub remote: [u8; 16],
}

impl KernelOpened {
    /// What the kernel has written.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let words = bytes.first_chunk::<152>()?;
        let word = |at: usize| words[8 * at..].first_chunk::<8>().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let half = |at: usize| words[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let reply_key = std::array::from_fn(|at| word(8 + at));
        let remote = words[136..].first_chunk().copied()?;
        Some(Self { key: std::array::from_fn(word), reply_key, generations: [half(128), half(132)], remote })
    }
}

/// What an opening is found by: the key of a first packet without its source port and, if it is that of a backend, with the backend's place.
pub fn opening_key(key: &KernelKey, backend: Option<usize>) -> KernelKey {
    let mut key = *key;
    key[PORTS] &= 0x0000_ffff_ffff_ffff;
    key[SOURCE_MAC] |= backend.map_or(0, |at| at as u64 + 1) << 48;
    key
}

/// The key of answers without the port that they go to.
pub fn any_reply_key(key: &KernelKey) -> KernelKey {
    let mut key = *key;
    key[PORTS] &= 0xffff_0000_ffff_ffff;
    key
}

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
    /// First packets of connections that the kernel has opened; they are forwarded too.
    pub opened: u64,
}
