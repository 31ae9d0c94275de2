//! Cutting a large frame into the pieces that a wire carries, as a NIC does, and completing checksums.
//!
//! Nothing is allocated and no payload is copied: for each piece the caller gets headers of its own and a range of the
//! frame, to be sent together.

mod crc32c;

use std::ops::Range;

use crate::number::{protocol, tcp_flag};
use crate::offload::Checksum;
use crate::{Frame, Headers, Ip, Malformed, checksum};

/// The most headers a frame to be cut may have: Ethernet with a tag, IPv4 and TCP with all their options, and for IPv6
/// some extension headers.
pub const HEADERS_MAX: usize = 160;

/// The length of an IPv6 header, from which on its payload length counts.
const IPV6: usize = 40;

/// Where in the IPv4 header its checksum is.
const IPV4_CHECKSUM: Range<usize> = 10..12;

/// A frame that is to be cut, and where.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    bytes: &'a [u8],
    source: Ip,
    destination: Ip,
    protocol: u8,
    l3: usize,
    l4: usize,
    payload: usize,
    end: usize,
    size: usize,
    /// A UDP datagram over IPv4 may go without a checksum, and then its pieces do too.
    without_checksum: bool,
}

impl<'a> Segments<'a> {
    /// Plans the pieces of a frame by its own offload request. `headers` are the frame's.
    pub fn new(frame: &'a Frame, headers: &Headers) -> Result<Self, Malformed> {
        headers.check_offload(frame)?;
        let size = frame.offload.segmentation.ok_or(Malformed::Segmentation)?.size;
        let bytes = frame.bytes();
        let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
        let (payload, end) = (usize::from(headers.payload), headers.end as usize);
        let v4 = headers.id.source.is_v4();
        let network = if v4 { 20 } else { IPV6 };
        let transport = if headers.id.protocol == protocol::TCP { 20 } else { 8 };
        let fits = l3 + network <= l4 && l4 + transport <= payload && payload <= end && end <= bytes.len();
        if !fits || payload > HEADERS_MAX || size == 0 {
            return Err(Malformed::Segmentation);
        }
        let partial = matches!(frame.offload.checksum, Checksum::Partial { .. });
        let empty = headers.id.protocol == protocol::UDP && bytes[l4 + 6..l4 + 8] == [0, 0];
        Ok(Self {
            bytes,
            source: headers.id.source,
            destination: headers.id.destination,
            protocol: headers.id.protocol,
            l3,
            l4,
            payload,
            end,
            size: usize::from(size),
            without_checksum: v4 && empty && !partial,
        })
    }

    /// How many pieces there are; at least one.
    pub fn count(&self) -> usize {
        (self.end - self.payload).div_ceil(self.size).max(1)
    }

    /// How long the headers of each piece are; at most [`HEADERS_MAX`].
    pub fn header_length(&self) -> usize {
        self.payload
    }

    /// How long a piece is with its headers; the last one may be shorter.
    pub fn piece_length(&self) -> usize {
        self.payload + self.size
    }

    /// Writes the headers of a piece to the start of `room` and answers where in the frame its payload is.
    /// `None` if there is no such piece, or if the room is shorter than [`Self::header_length`].
    pub fn piece(&self, index: usize, room: &mut [u8]) -> Option<Range<usize>> {
        if index >= self.count() {
            return None;
        }
        let headers = room.get_mut(..self.payload)?;
        headers.copy_from_slice(&self.bytes[..self.payload]);
        let from = self.payload + index * self.size;
        let range = from..(from + self.size).min(self.end);
        self.write_network(headers, index, range.len());
        match self.protocol {
            protocol::TCP => self.write_tcp(headers, index, &range),
            _ => self.write_udp(headers, &range),
        }
        Some(range)
    }

    fn write_network(&self, headers: &mut [u8], index: usize, payload: usize) {
        let total = self.payload - self.l3 + payload;
        let header = &mut headers[self.l3..self.l4];
        if !self.source.is_v4() {
            header[4..6].copy_from_slice(&((total - IPV6) as u16).to_be_bytes());
            return;
        }
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(index as u16);
        header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        write_ipv4_checksum(header);
    }

    fn write_tcp(&self, headers: &mut [u8], index: usize, range: &Range<usize>) {
        let header = &mut headers[self.l4..];
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]).wrapping_add((index * self.size) as u32);
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        // The end of the data is at the end of the last piece; the answer to congestion is given once (RFC 3168, 6.1.2).
        if range.end < self.end {
            header[13] &= !(tcp_flag::FIN | tcp_flag::PSH);
        }
        if index > 0 {
            header[13] &= !tcp_flag::CWR;
        }
        self.write_checksum(header, 16, range);
    }

    fn write_udp(&self, headers: &mut [u8], range: &Range<usize>) {
        let header = &mut headers[self.l4..];
        let length = (header.len() + range.len()) as u16;
        header[4..6].copy_from_slice(&length.to_be_bytes());
        if !self.without_checksum {
            self.write_checksum(header, 6, range);
        }
    }

    fn write_checksum(&self, header: &mut [u8], field: usize, range: &Range<usize>) {
        header[field..field + 2].fill(0);
        let length = (header.len() + range.len()) as u32;
        let pseudo = checksum::pseudo_header(self.source, self.destination, self.protocol, length);
        let sum = checksum::add(checksum::sum(header), checksum::sum(&self.bytes[range.clone()]));
        header[field..field + 2].copy_from_slice(&finished(checksum::add(pseudo, sum), self.protocol).to_be_bytes());
    }
}

/// Computes the checksum of an IPv4 header anew.
pub(crate) fn write_ipv4_checksum(header: &mut [u8]) {
    header[IPV4_CHECKSUM].fill(0);
    let sum = !checksum::sum(header);
    header[IPV4_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

/// What stands in a checksum field for this sum. In UDP a zero says that there is none, so the other zero is used.
fn finished(sum: u16, protocol: u8) -> u16 {
    match !sum {
        0 if protocol == protocol::UDP => 0xffff,
        field => field,
    }
}

/// Completes a partial checksum, for a receiver that cannot be asked to. A frame that is complete stays as it is; one
/// that is still to be cut is refused, as its pieces have checksums of their own. `headers` are the frame's.
pub fn complete_checksum(frame: &mut Frame, headers: &Headers) -> Result<(), Malformed> {
    let Checksum::Partial { start, field } = frame.offload.checksum else {
        return Ok(());
    };
    headers.check_offload(frame)?;
    if frame.offload.segmentation.is_some() {
        return Err(Malformed::Segmentation);
    }
    let (start, field) = (usize::from(start), usize::from(field));
    let protocol = headers.id.protocol;
    let transport = frame.bytes_mut().get_mut(start..headers.end as usize).ok_or(Malformed::Segmentation)?;
    if protocol == protocol::SCTP {
        write(transport, field, [0; 4])?;
        let sum = crc32c::sum(transport);
        write(transport, field, sum.to_le_bytes())?;
    } else {
        let sum = finished(checksum::sum(transport), protocol);
        write(transport, field, sum.to_be_bytes())?;
    }
    frame.offload.checksum = Checksum::Complete;
    Ok(())
}

fn write<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> Result<(), Malformed> {
    bytes.get_mut(at..at + N).ok_or(Malformed::Segmentation)?.copy_from_slice(&value);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
