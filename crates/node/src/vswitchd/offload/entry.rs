//! From what the engine has decided to what stands in the kernel.

use host::kernel_flows::{
    FLAG_AGAIN, FLAG_OUT, FLAG_PAST, FLAG_POPPED, FLAG_PUSH, FLAG_REPLY, KernelFlow, KernelKey, KernelOpening, any_reply_key,
};
use vfp::{OffloadChoice, OffloadFlow, OffloadKey};
use wire::{FlowId, Ip};

/// Where packets leave: by a link, and what is to be known besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// To the pod whose NIC has this end at the switch.
    Nic(u32),
    /// By an adapter.
    Adapter(u32),
    /// By an adapter in VXLAN, and by way of a next hop.
    Tunnel(u32, Ip),
}

/// The engine's key with the number of a link in place of that of its port.
pub(super) fn key_at(key: &OffloadKey, link: u32) -> KernelKey {
    let mut ours = *key;
    ours[0] = u64::from(link) << 32 | u64::from(key[0] as u32);
    ours
}

pub(super) fn entry(flow: &OffloadFlow, exit: Exit, is_popped: bool) -> KernelFlow {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&flow.destination_mac.0);
    macs[6..].copy_from_slice(&flow.source_mac.0);
    let (to, exit_flags, next_hop) = match exit {
        Exit::Nic(link) => (link, 0, Ip::NONE),
        Exit::Adapter(link) => (link, FLAG_OUT, Ip::NONE),
        Exit::Tunnel(link, next_hop) => (link, FLAG_PUSH, next_hop),
    };
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let outer = flow.encapsulation.unwrap_or_default();
    KernelFlow {
        to,
        mtu: flow.mtu,
        parts: flow.parts,
        flags: exit_flags
            | flag(flow.past.is_some(), FLAG_PAST)
            | flag(is_popped, FLAG_POPPED)
            | flag(flow.reply, FLAG_REPLY)
            | flag(flow.again, FLAG_AGAIN),
        ports: [flow.ports[0].0, flow.ports[1].0, flow.past.map_or(0, |port| port.0)],
        generations: flow.generations,
        macs,
        source_port: flow.source_port.to_be_bytes(),
        destination_port: flow.destination_port.to_be_bytes(),
        source: bytes(flow.source),
        destination: bytes(flow.destination),
        local: bytes(outer.local),
        remote: bytes(if is_popped { flow.provider } else { outer.remote }),
        next_hop: bytes(next_hop),
        vni: outer.vni,
        tunnel_port: outer.port.to_be_bytes(),
        ..KernelFlow::default()
    }
}

/// What first packets become, with both flows as they are in the kernel; if there is a choice, also how it is made.
pub(super) fn openings(flows: [(KernelKey, KernelFlow); 2], choice: Option<&OffloadChoice>) -> (KernelOpening, Option<KernelOpening>) {
    let [(_, forward), (reply_key, reply)] = flows;
    let opening = KernelOpening { reply_key: any_reply_key(&reply_key), forward, reply, ..KernelOpening::default() };
    let choosing = choice.map(|choice| KernelOpening {
        backends: choice.count as u64,
        seed: choice.seed,
        hashes: choice.hashes,
        ..KernelOpening::default()
    });
    (opening, choosing)
}

/// What the packets of a flow become.
pub(super) fn translated(key: &KernelKey, flow: &KernelFlow) -> FlowId {
    let ip = |low: u64, high: u64| Ip(u128::from(low) | u128::from(high) << 64);
    let before = FlowId {
        source: ip(key[1], key[2]),
        destination: ip(key[3], key[4]),
        source_port: (key[5] >> 48) as u16,
        destination_port: (key[5] >> 32) as u16,
        protocol: (key[5] >> 16) as u8,
    };
    let v4 = before.source.is_v4();
    let (source, destination) = match flow.parts & vfp::PART_ADDRESSES {
        0 => (before.source, before.destination),
        _ => (address(&flow.source, v4), address(&flow.destination, v4)),
    };
    let (source_port, destination_port) = match flow.parts & vfp::PART_PORTS {
        0 => (before.source_port, before.destination_port),
        _ => (u16::from_be_bytes(flow.source_port), u16::from_be_bytes(flow.destination_port)),
    };
    FlowId { source, destination, source_port, destination_port, ..before }
}

/// An address as on the wire, from the beginning.
pub(super) fn bytes(ip: Ip) -> [u8; 16] {
    match ip.is_v4() {
        false => ip.0.to_be_bytes(),
        true => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.v4_bits().to_be_bytes());
            bytes
        }
    }
}

/// The address that these bytes are.
pub(super) fn address(bytes: &[u8; 16], v4: bool) -> Ip {
    match v4 {
        false => Ip(u128::from_be_bytes(*bytes)),
        true => Ip::v4(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for ip in [Ip::v4(0x0a00_0001), Ip(0xfd00 << 112 | 7)] {
            assert_eq!(address(&bytes(ip), ip.is_v4()), ip);
        }
    }

    #[test]
    fn what_does_not_change_stays_as_it_is_in_the_key() {
        let v4 = |bits: u64| 0xffff_0000_0000 | bits;
        let key = [7 << 32, v4(1), 0, v4(2), 0, 1000 << 48 | 80 << 32 | 6 << 16 | 0xffff, 0, 0];
        let before = FlowId { source: Ip::v4(1), destination: Ip::v4(2), source_port: 1000, destination_port: 80, protocol: 6 };
        assert_eq!(translated(&key, &KernelFlow::default()), before);
        let flow =
            KernelFlow { parts: vfp::PART_ADDRESSES, source: bytes(Ip::v4(1)), destination: bytes(Ip::v4(9)), ..KernelFlow::default() };
        assert_eq!(translated(&key, &flow), FlowId { destination: Ip::v4(9), ..before });
    }
}
