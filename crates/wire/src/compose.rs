//! Putting headers together, for packets that the switch itself sends.
//!
//! Everything is appended to a [`Frame`] from the front to the back. Lengths are known beforehand; transport checksums
//! are computed last, over what is then there.

use crate::number::{ether_type, protocol};
use crate::{Frame, Headers, Ip, MacAddress, checksum};

/// What an IP header of either family says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpHeader {
    pub(crate) source: Ip,
    pub(crate) destination: Ip,
    pub(crate) protocol: u8,
    pub(crate) hop_limit: u8,
    /// The whole byte: six bits of DSCP, two of ECN.
    pub(crate) traffic_class: u8,
}

const DONT_FRAGMENT: u8 = 0x40;

impl IpHeader {
    /// What the Ethernet header says of it.
    pub(crate) const fn ether_type(&self) -> u16 {
        if self.source.is_v4() { ether_type::IPV4 } else { ether_type::IPV6 }
    }

    /// How long it is.
    pub(crate) const fn len(&self) -> usize {
        if self.source.is_v4() { 20 } else { 40 }
    }

    /// The bytes, of which the first [`Self::len`] count. `None` if the payload is longer than a packet can carry.
    pub(crate) fn emit(&self, payload: usize) -> Option<[u8; 40]> {
        let mut bytes = [0; 40];
        match self.source.is_v4() {
            true => self.emit4(&mut bytes, payload)?,
            false => self.emit6(&mut bytes, payload)?,
        }
        Some(bytes)
    }

    /// A packet that is never cut needs no identification (RFC 6864, 4.1), so it is zero and "don't fragment" is set.
    fn emit4(&self, bytes: &mut [u8; 40], payload: usize) -> Option<()> {
        bytes[0] = 0x45;
        bytes[1] = self.traffic_class;
        bytes[2..4].copy_from_slice(&u16::try_from(20 + payload).ok()?.to_be_bytes());
        bytes[6] = DONT_FRAGMENT;
        bytes[8] = self.hop_limit;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.v4_bits().to_be_bytes());
        bytes[16..20].copy_from_slice(&self.destination.v4_bits().to_be_bytes());
        let sum = !checksum::sum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }

    fn emit6(&self, bytes: &mut [u8; 40], payload: usize) -> Option<()> {
        bytes[0] = 0x60 | self.traffic_class >> 4;
        bytes[1] = self.traffic_class << 4;
        bytes[4..6].copy_from_slice(&u16::try_from(payload).ok()?.to_be_bytes());
        bytes[6] = self.protocol;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.source.0.to_be_bytes());
        bytes[24..40].copy_from_slice(&self.destination.0.to_be_bytes());
        Some(())
    }

    /// Appends the header for a payload of this length. Whether it fitted.
    pub(crate) fn append(&self, out: &mut Frame, payload: usize) -> bool {
        let header = self.emit(payload);
        header.is_some_and(|header| out.append(&header[..self.len()]) == self.len())
    }
}

/// The bytes of an Ethernet header without a tag.
pub(crate) fn ethernet(destination: MacAddress, source: MacAddress, ether_type: u16) -> [u8; 14] {
    let mut bytes = [0; 14];
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..12].copy_from_slice(&source.0);
    bytes[12..].copy_from_slice(&ether_type.to_be_bytes());
    bytes
}

/// Makes `out` the Ethernet header of an answer to a frame: with its tag, if it has one, and with its type. Whether the
/// headers are those of the frame.
pub(crate) fn answer_link(out: &mut Frame, frame: &[u8], headers: &Headers, source: MacAddress) -> bool {
    let Some(link) = frame.get(..usize::from(headers.l3)).filter(|link| link.len() >= 14) else {
        return false;
    };
    out.fill(link);
    let bytes = out.bytes_mut();
    bytes[..6].copy_from_slice(&headers.source_mac.0);
    bytes[6..12].copy_from_slice(&source.0);
    true
}

/// Computes the checksum of everything from `l4` to the end of the frame into the field at `l4 + field`.
///
/// The pseudo-header is part of it for all protocols but ICMP of IPv4.
pub(crate) fn finish_checksum(out: &mut Frame, l4: usize, field: usize, ip: &IpHeader) {
    let Some(bytes) = out.bytes_mut().get_mut(l4..).filter(|bytes| bytes.len() >= field + 2) else {
        return;
    };
    bytes[field..field + 2].fill(0);
    let covered = checksum::sum(bytes);
    let total = match ip.protocol {
        protocol::ICMP => covered,
        _ => checksum::add(covered, checksum::pseudo_header(ip.source, ip.destination, ip.protocol, bytes.len() as u32)),
    };
    bytes[field..field + 2].copy_from_slice(&(!total).to_be_bytes());
}

/// Changes the checksum field at `at`, if it is there, for covered bytes whose sum changed by this difference.
pub(crate) fn adjust_checksum(bytes: &mut [u8], at: usize, difference: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        let value = checksum::adjust(u16::from_be_bytes([field[0], field[1]]), difference);
        field.copy_from_slice(&value.to_be_bytes());
    }
}
