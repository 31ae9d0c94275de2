//! What a unified flow is found by.

use wire::number::ether_type;
use wire::{FlowId, Fragment, Headers, Ip, Kind, MacAddress};

use super::connection::Scope;
use crate::port::PortId;

/// Stands for a packet without a tag.
pub(crate) const NO_VLAN: u16 = 0xffff;

/// Everything that decides about a packet, as eight words: the port and virtual network it comes from, both ends, and
/// the addresses of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowKey(pub(crate) [u64; 8]);

impl FlowKey {
    /// The virtual network 0 stands for none; a VNI on the wire is never compared with it, as tunnels have their own ports.
    #[inline]
    pub(crate) fn new(port: PortId, vni: u32, headers: &Headers) -> Self {
        let id = &headers.id;
        let mac = |mac: [u8; 6]| u64::from_ne_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0]);
        let vlan = u64::from(headers.vlan.unwrap_or(NO_VLAN));
        Self([
            u64::from(port.0) << 32 | u64::from(vni),
            id.source.0 as u64,
            (id.source.0 >> 64) as u64,
            id.destination.0 as u64,
            (id.destination.0 >> 64) as u64,
            u64::from(id.source_port) << 48 | u64::from(id.destination_port) << 32 | u64::from(id.protocol) << 16 | vlan,
            mac(headers.destination_mac.0),
            mac(headers.source_mac.0),
        ])
    }

    /// Where its packets come from, and whose they are.
    pub(crate) fn scope(&self) -> Scope {
        Scope { port: PortId((self.0[0] >> 32) as u32), vni: self.0[0] as u32, id: self.headers().id }
    }

    /// The headers of a whole packet of TCP or UDP without a tag that this would be the key of.
    pub(crate) fn headers(&self) -> Headers {
        let [_, source, source_high, destination, destination_high, rest, destination_mac, source_mac] = self.0;
        let ip = |low: u64, high: u64| Ip(u128::from(low) | u128::from(high) << 64);
        let mac = |word: u64| {
            let [a, b, c, d, e, f, ..] = word.to_ne_bytes();
            MacAddress([a, b, c, d, e, f])
        };
        let id = FlowId {
            source: ip(source, source_high),
            destination: ip(destination, destination_high),
            source_port: (rest >> 48) as u16,
            destination_port: (rest >> 32) as u16,
            protocol: (rest >> 16) as u8,
        };
        Headers {
            kind: Kind::Ip,
            id,
            fragment: Fragment::Whole,
            destination_mac: mac(destination_mac),
            source_mac: mac(source_mac),
            ether_type: if id.source.is_v4() { ether_type::IPV4 } else { ether_type::IPV6 },
            vlan: None,
            l3: 0,
            l4: 0,
            payload: 0,
            end: 0,
            tcp_flags: 0,
            hop_limit: 0,
        }
    }

    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        let [w0, w1, w2, w3, w4, w5, w6, w7] = self.0;
        // Four independent multiplications, so that they overlap; each folds two words.
        let a = fold(w0 ^ seed, w1 ^ K0);
        let b = fold(w2 ^ seed.rotate_left(17), w3 ^ K1);
        let c = fold(w4 ^ seed.rotate_left(31), w5 ^ K2);
        let d = fold(w6 ^ seed.rotate_left(47), w7 ^ K3);
        mix(a ^ b.rotate_left(11) ^ c.rotate_left(23) ^ d.rotate_left(37))
    }
}

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xbf58_476d_1ce4_e5b9;
const K2: u64 = 0x94d0_49bb_1331_11eb;
const K3: u64 = 0xd6e8_feb8_6659_fd93;

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Spreads the bits of a number.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    fold(number ^ K2, K0)
}
