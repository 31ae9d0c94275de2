//! The frames that nearly all frames are: TCP or UDP, whole, in IP without options, without a tag.
//!
//! For these every offset but the payload's is known beforehand, so they are read with no branch more than their checks need,
//! and straight into the value that is answered, which saves a third of the time. All of it is inlined for that: a call would
//! put the value into memory, from where it had to be moved. Whatever is not plain, or not right, is left to the full reader,
//! which then says what it is. Both agree on every frame that this one reads.

use super::{FlowId, Fragment, Headers, Kind, sum20};
use crate::number::{ether_type, protocol};
use crate::{Ip, MacAddress};

const L3: usize = 14;
const L4_V4: usize = L3 + 20;
const L4_V6: usize = L3 + 40;
const UDP: usize = 8;

/// Reads a plain frame. `None` if it is another, or not right.
#[inline(always)]
pub(super) fn read(frame: &[u8]) -> Option<Headers> {
    let kind = frame.get(12..14)?;
    match u16::from_be_bytes([kind[0], kind[1]]) {
        ether_type::IPV4 => ipv4(frame),
        ether_type::IPV6 => ipv6(frame),
        _ => None,
    }
}

#[inline(always)]
fn ipv4(frame: &[u8]) -> Option<Headers> {
    let bytes = frame.first_chunk::<{ L4_V4 + UDP }>()?;
    let header: &[u8; 20] = bytes[L3..].first_chunk()?;
    let end = L3 + usize::from(u16::from_be_bytes([header[2], header[3]]));
    let source = Ip::v4(u32::from_be_bytes([header[12], header[13], header[14], header[15]]));
    let piece = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header[0] != 0x45 || piece || source.is_multicast() || bytes[6] & 1 != 0 || sum20(header) != 0xffff {
        return None;
    }
    let transport = Transport::read(header[9], frame.get(L4_V4..end)?)?;
    let destination = Ip::v4(u32::from_be_bytes([header[16], header[17], header[18], header[19]]));
    Some(transport.headers(frame.first_chunk()?, (source, destination), header[8], L4_V4, end))
}

#[inline(always)]
fn ipv6(frame: &[u8]) -> Option<Headers> {
    let bytes = frame.first_chunk::<{ L4_V6 + UDP }>()?;
    let header: &[u8; 40] = bytes[L3..].first_chunk()?;
    let end = L4_V6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let source = Ip(u128::from_be_bytes(*header[8..].first_chunk()?));
    let destination = Ip(u128::from_be_bytes(*header[24..].first_chunk()?));
    if header[0] >> 4 != 6 || source.is_v4() || destination.is_v4() || source.is_multicast() || bytes[6] & 1 != 0 {
        return None;
    }
    let transport = Transport::read(header[6], frame.get(L4_V6..end)?)?;
    Some(transport.headers(frame.first_chunk()?, (source, destination), header[7], L4_V6, end))
}

/// What a transport header says.
struct Transport {
    protocol: u8,
    ports: (u16, u16),
    length: usize,
    tcp_flags: u8,
}

impl Transport {
    #[inline(always)]
    fn read(protocol: u8, l4: &[u8]) -> Option<Self> {
        let [s0, s1, d0, d1, l0, l1, _, _] = *l4.first_chunk::<UDP>()?;
        let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        match protocol {
            protocol::TCP => {
                let header = l4.first_chunk::<20>()?;
                let length = usize::from(header[12] >> 4) * 4;
                (20..=l4.len()).contains(&length).then_some(Self { protocol, ports, length, tcp_flags: header[13] })
            }
            protocol::UDP => {
                let total = usize::from(u16::from_be_bytes([l0, l1]));
                (UDP..=l4.len()).contains(&total).then_some(Self { protocol, ports, length: UDP, tcp_flags: 0 })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn headers(self, link: &[u8; L3], ends: (Ip, Ip), hop_limit: u8, l4: usize, end: usize) -> Headers {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *link;
        Headers {
            kind: Kind::Ip,
            id: FlowId {
                source: ends.0,
                destination: ends.1,
                source_port: self.ports.0,
                destination_port: self.ports.1,
                protocol: self.protocol,
            },
            fragment: Fragment::Whole,
            destination_mac: MacAddress([d0, d1, d2, d3, d4, d5]),
            source_mac: MacAddress([s0, s1, s2, s3, s4, s5]),
            ether_type: u16::from_be_bytes([t0, t1]),
            vlan: None,
            l3: L3 as u16,
            l4: l4 as u16,
            payload: (l4 + self.length) as u16,
            end: end as u32,
            tcp_flags: self.tcp_flags,
            hop_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::checksum;

    fn frame(v4: bool, tcp: bool, payload: &[u8]) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if v4 { link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64) } else { link.ipv6([0xfd; 16], [0xfe; 16], 64) };
        let mut bytes = Vec::new();
        let written = match tcp {
            true => ip.tcp(1, 2, 3, 4).write(&mut bytes, payload),
            false => ip.udp(1, 2).write(&mut bytes, payload),
        };
        written.unwrap();
        bytes
    }

    #[test]
    fn plain_frames_are_read_here() {
        for (v4, tcp) in [(true, true), (true, false), (false, true), (false, false)] {
            assert!(read(&frame(v4, tcp, &[1, 2, 3])).is_some());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_full_reader_agrees(
            kinds in any::<(bool, bool)>(),
            payload in vec(any::<u8>(), 0..40),
            damage in vec((0..80usize, any::<u8>()), 0..3),
            length in 0..120usize,
            repaired in prop::bool::weighted(0.9),
        ) {
            let mut bytes = frame(kinds.0, kinds.1, &payload);
            for (at, value) in damage {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            if kinds.0 && repaired {
                bytes[24..26].fill(0);
                let sum = !checksum::sum(&bytes[14..34]);
                bytes[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            if length < 60 {
                bytes.truncate(length);
            }
            if let Some(headers) = read(&bytes) {
                prop_assert_eq!(Ok(headers), Headers::parse_any(&bytes));
            }
        }
    }
}
