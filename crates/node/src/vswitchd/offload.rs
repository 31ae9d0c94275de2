//! Flows in the kernel: what the engine has decided is put into the kernel's own table, as far as both ends are NICs that it can reach.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::Instant as Clock;

use host::clock;
use host::kernel_flows::{FLAG_PAST, KernelFlow, KernelFlows, KernelFlowsError, KernelKey, KernelLimits, Ways};
use vfp::{Counted, Instant, Limits, Offload, OffloadFlow, PortId};
use wire::Ip;

/// The kernel's table, and which NICs are behind which ports.
#[derive(Debug)]
pub(super) struct KernelOffload {
    flows: KernelFlows,
    nics: RwLock<HashMap<PortId, Behind>>,
    beginning: Beginning,
    /// Whether the kernel could once not be told of a change of policy. It has forwarded nothing by itself since, and never will again.
    is_behind: AtomicBool,
}

/// What is behind a port.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// The switch's end of its NIC.
    nic: u32,
    /// Whether it may send only so much: that is counted where all its packets come by, which is not in the kernel.
    is_limited: bool,
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

impl KernelOffload {
    /// Brings an empty table into the kernel. The clock of the switch has counted from `start`.
    pub(super) fn load(limits: Limits, start: Clock) -> Result<Self, KernelFlowsError> {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let flows = KernelFlows::load(KernelLimits { flows: number(limits.flows), ports: number(limits.ports) })?;
        let switch = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let beginning = Beginning { kernel: clock::since_boot(), switch };
        Ok(Self { flows, nics: RwLock::default(), beginning, is_behind: AtomicBool::new(false) })
    }

    /// The table itself.
    pub(super) fn table(&self) -> &KernelFlows {
        &self.flows
    }

    /// Has flows of a port go by the kernel, whose NIC has this end at the switch.
    pub(super) fn add(&self, port: PortId, nic: u32) {
        self.write().insert(port, Behind { nic, is_limited: false });
    }

    /// The port is gone, and its flows with it.
    pub(super) fn remove_port(&self, port: PortId) {
        self.write().remove(&port);
    }

    /// Says whether a port may send only so much. Answers whether that is new.
    pub(super) fn limit(&self, port: PortId, is_limited: bool) -> bool {
        let mut nics = self.write();
        let Some(behind) = nics.get_mut(&port) else { return false };
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

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<PortId, Behind>> {
        self.nics.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn behind(&self, port: PortId) -> Option<Behind> {
        self.nics.read().unwrap_or_else(PoisonError::into_inner).get(&port).copied()
    }

    /// The key that the kernel knows the engine's by.
    fn key(&self, key: &[u64; 8]) -> Option<KernelKey> {
        Some(key_at(key, self.behind(PortId((key[0] >> 32) as u32))?.nic))
    }
}

/// The engine's key with the number of a link in place of that of its port.
fn key_at(key: &[u64; 8], nic: u32) -> KernelKey {
    let mut ours = *key;
    ours[0] = u64::from(nic) << 32;
    ours
}

impl Offload for KernelOffload {
    fn put(&self, flow: &OffloadFlow) -> bool {
        let [Some(from), Some(to)] = flow.ports.map(|port| self.behind(port)) else { return false };
        // What goes back to where it came from has no way there past the link itself.
        if from.is_limited || from.nic == to.nic {
            return false;
        }
        match self.flows.put(&key_at(&flow.key, from.nic), &entry(flow, to.nic)) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "a flow stays with the engine");
                false
            }
        }
    }

    fn remove(&self, key: &[u64; 8]) {
        if let Some(key) = self.key(key) {
            self.flows.remove(&key);
        }
    }

    fn counted(&self, key: &[u64; 8]) -> Counted {
        let Some(flow) = self.key(key).and_then(|key| self.flows.get(&key)).filter(|flow| flow.packets > 0) else {
            return Counted::default();
        };
        Counted { packets: flow.packets, bytes: flow.bytes, at: self.beginning.moment(flow.seen), tcp_flags: flow.tcp_flags as u8 }
    }

    fn set_generation(&self, port: PortId, generation: u32) {
        if let Err(error) = self.flows.set_generation(port.0, generation) {
            // What the kernel is not told it must not go on with.
            tracing::error!(%error, "everything goes by the engine from now on");
            self.is_behind.store(true, Ordering::Relaxed);
            self.pause(true);
        }
    }
}

fn entry(flow: &OffloadFlow, nic: u32) -> KernelFlow {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&flow.destination_mac.0);
    macs[6..].copy_from_slice(&flow.source_mac.0);
    KernelFlow {
        to: nic,
        mtu: flow.mtu,
        parts: flow.parts,
        flags: if flow.past.is_some() { FLAG_PAST } else { 0 },
        ports: [flow.ports[0].0, flow.ports[1].0, flow.past.map_or(0, |port| port.0)],
        generations: flow.generations,
        macs,
        source_port: flow.source_port.to_be_bytes(),
        destination_port: flow.destination_port.to_be_bytes(),
        source: address(flow.source),
        destination: address(flow.destination),
        ..KernelFlow::default()
    }
}

/// An address as on the wire, from the beginning.
fn address(ip: Ip) -> [u8; 16] {
    match ip.is_v4() {
        false => ip.0.to_be_bytes(),
        true => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.v4_bits().to_be_bytes());
            bytes
        }
    }
}

/// How packets of pods are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataPath {
    /// By this process: NICs are TAP devices. Works everywhere.
    #[default]
    Tap,
    /// Known flows by the kernel: NICs are pairs of links with programs of ours.
    Bpf,
    /// By the kernel where that is possible.
    Auto,
}

impl DataPath {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tap, Self::Bpf, Self::Auto];
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tap => "tap",
            Self::Bpf => "bpf",
            Self::Auto => "auto",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_moments_are_those_of_the_switch() {
        let beginning = Beginning { kernel: 5_000_000_000, switch: 1_000_000 };
        assert_eq!(beginning.moment(5_000_000_000), Instant(1_000_000));
        assert_eq!(beginning.moment(5_000_250_000), Instant(1_000_250));
        // Before both began there is nothing.
        assert_eq!(beginning.moment(0), Instant(0));
    }
}
