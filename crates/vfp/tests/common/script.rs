//! A switch that is driven by bytes, and asked before every packet what it is going to do.
//!
//! A script is a plan of the topology and then steps of [`STEP`] bytes each. Whatever the bytes are, they mean something, so that
//! chance and a fuzzer can write scripts. For every packet these must hold:
//!
//! - [`Switch::simulate`], which walks the layers afresh, says what [`Switch::process`] then does, to the byte;
//! - asking changes nothing;
//! - what leaves can be read, fits the port it leaves by, and has right checksums if the packet had;
//! - the counters of the ports account for every frame;
//! - when everything has expired, nothing is taken any more.

mod checks;
mod steps;
mod topology;

use vfp::{DomainId, Egress, Instant, PoolId, PortId, Switch, TableId, UnderlayId};
use wire::{Encapsulation, Frame, Ip, TunnelKind};

use super::frames::{Out, ip};

/// Bytes of the plan of a topology.
pub(crate) const PLAN: usize = 24;
/// Bytes of a step.
pub(crate) const STEP: usize = 12;

/// Frames that left and can be answered.
const RECENT: usize = 12;

/// The switch with all that is around it.
struct World {
    switch: Switch,
    out: Out,
    now: Instant,
    pods: DomainId,
    nics: Vec<PortId>,
    mtus: Vec<u16>,
    uplink: PortId,
    tunnel: PortId,
    other: PortId,
    underlay: UnderlayId,
    pool: PoolId,
    /// Services that all NICs may ask.
    table: TableId,
    /// What left last.
    recent: Vec<(Egress, Frame)>,
    /// What came last.
    past: Vec<Past>,
}

/// A frame that came.
#[derive(Clone)]
struct Past {
    port: PortId,
    frame: Frame,
    outer: Option<Encapsulation>,
    sound: bool,
}

/// Runs a script. Panics where something does not hold.
pub(crate) fn run(script: &[u8]) {
    let mut plan = [0; PLAN];
    let length = script.len().min(PLAN);
    plan[..length].copy_from_slice(&script[..length]);
    let mut world = World::new(&plan);
    for step in script[length..].as_chunks::<STEP>().0 {
        world.step(step);
    }
    world.settle();
}

/// One of a list.
fn pick<T: Copy>(list: &[T], byte: u8) -> T {
    list[usize::from(byte) % list.len()]
}

/// The address of a NIC in one family.
fn nic_address(number: usize, v4: bool) -> Ip {
    let base = if v4 { ip("10.0.0.1") } else { ip("fd00::1") };
    Ip(base.0 + number as u128)
}

/// Outer headers of another node. The transport port is one that packets of the script go to, so that translation makes some of them
/// look like packets of the tunnel.
fn outer(vni: u32, remote: u8) -> Encapsulation {
    Encapsulation { kind: TunnelKind::Vxlan, vni, local: ip("192.168.0.1"), remote: Ip(ip("192.168.0.2").0 + u128::from(remote)), port: 53 }
}

/// Addresses that packets go to, of one family.
fn destination(byte: u8, v4: bool) -> Ip {
    let text = match (byte % 10, v4) {
        (number @ 0..4, v4) => return nic_address(usize::from(number), v4),
        (4 | 5, true) => "10.96.0.1",
        (4 | 5, false) => "fd96::1",
        (6, true) => "8.8.8.8",
        (6, false) => "2001:db8::8",
        (7, true) => "10.0.1.1",
        (7, false) => "fd01::1",
        (8, true) => "10.0.9.9",
        (8, false) => "fd09::9",
        (_, true) => "192.168.0.1",
        (_, false) => "2001:db8::1",
    };
    ip(text)
}
