//! STT (draft-davie-stt-08): frames of up to 64 KiB behind a header that NICs take for TCP's.
//!
//! ```text
//! Ethernet │ IP │ 20 bytes like TCP │ 18 bytes of STT │ the frame
//! ```
//!
//! The sequence number holds the length of the STT frame and the offset of this piece in it, and the acknowledgement
//! number says which pieces belong together. So a NIC that cuts TCP cuts STT as well, and counts the offset up as it does
//! so. Pieces are put together again by a [`Reassembler`].

mod reassembler;

use std::fmt;

use crate::number::protocol;
use crate::offload::{Checksum, Offload, Segmentation, SegmentationKind};
use crate::{Headers, Kind, Malformed};

pub use reassembler::{FRAMES_MAX, Reassembler};

/// The length of the STT header, with two bytes that align what follows the Ethernet header of the frame.
pub const LENGTH: usize = 18;

/// The length of the header that looks like TCP's.
pub const SEGMENT_LENGTH: usize = 20;

/// The port that is assigned to it.
pub const PORT: u16 = 7471;

const VERIFIED: u8 = 0x01;
const PARTIAL: u8 = 0x02;
const IPV4: u8 = 0x04;
const TCP: u8 = 0x08;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// The header of one piece of an STT frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The transport port it is sent from, by which networks spread flows.
    pub source_port: u16,
    /// The transport port it is sent to.
    pub destination_port: u16,
    /// The length of the whole STT frame, with its header.
    pub frame_length: u16,
    /// Where in it this piece starts.
    pub offset: u16,
    /// What the pieces of a frame have in common.
    pub id: u32,
}

impl Segment {
    /// Reads the header at the start of these bytes, and answers how long it is.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let header = bytes.first_chunk::<SEGMENT_LENGTH>().ok_or(Malformed::Truncated)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let length = usize::from(header[12] >> 4) * 4;
        if length < SEGMENT_LENGTH || length > bytes.len() {
            return Err(Malformed::HeaderLength);
        }
        let segment = Self {
            source_port: word(0),
            destination_port: word(2),
            frame_length: word(4),
            offset: word(6),
            id: u32::from(word(8)) << 16 | u32::from(word(10)),
        };
        match usize::from(segment.frame_length) > LENGTH && segment.offset < segment.frame_length {
            true => Ok((segment, length)),
            false => Err(Malformed::Tunnel),
        }
    }

    /// The bytes, with a checksum of zero.
    pub fn emit(&self) -> [u8; SEGMENT_LENGTH] {
        let mut bytes = [0; SEGMENT_LENGTH];
        bytes[..2].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.frame_length.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.id.to_be_bytes());
        // What a NIC and a firewall expect of a segment in the middle of a connection.
        bytes[12] = (SEGMENT_LENGTH as u8 / 4) << 4;
        bytes[13] = ACK | PSH;
        bytes[14..16].fill(0xff);
        bytes
    }
}

/// The header of an STT frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stt {
    /// Which network the frame is of.
    pub context: u64,
    /// The VLAN tag control of the frame, if it is carried here and not in the frame.
    pub vlan: Option<u16>,
    /// What is left to do on the frame; offsets count from its start.
    pub offload: Offload,
}

impl Stt {
    /// Reads the header at the start of these bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk::<LENGTH>().ok_or(Malformed::Truncated)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        if header[0] != 0 {
            return Err(Malformed::Tunnel);
        }
        let (flags, l4, size) = (header[1], header[2], word(4));
        let field = if flags & TCP != 0 { 16 } else { 6 };
        let checksum = match flags {
            flags if flags & PARTIAL != 0 => Checksum::Partial { start: u16::from(l4), field },
            flags if flags & VERIFIED != 0 => Checksum::Verified,
            _ => Checksum::Complete,
        };
        let kind = match (flags & TCP != 0, flags & IPV4 != 0) {
            (true, true) => SegmentationKind::Tcp4 { ecn: false },
            (true, false) => SegmentationKind::Tcp6 { ecn: false },
            (false, _) => SegmentationKind::Udp,
        };
        // Without a partial checksum there is nothing to cut: the size is then that of segments already merged.
        let cut = size > 0 && flags & PARTIAL != 0;
        let segmentation = cut.then_some(Segmentation { kind, size, header_length: 0 });
        let vlan = Some(word(6)).filter(|tag| *tag != 0);
        let context = u64::from_be_bytes(*header[8..].first_chunk().unwrap_or(&[0; 8]));
        Ok(Self { context, vlan, offload: Offload { checksum, segmentation } })
    }

    /// The bytes. `None` if the frame's offload request cannot be said in them: the transport header is too far from the
    /// start, or is of a protocol that STT does not know. `headers` are those of the frame, where it could be read.
    pub fn emit(&self, headers: Option<&Headers>) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        bytes[1] = match self.offload.checksum {
            Checksum::Complete => 0,
            Checksum::Verified => VERIFIED,
            Checksum::Partial { start, .. } => {
                bytes[2] = u8::try_from(start).ok()?;
                PARTIAL
            }
        };
        if let Some(headers) = headers.filter(|headers| headers.kind == Kind::Ip) {
            bytes[1] |= if headers.id.source.is_v4() { IPV4 } else { 0 };
            bytes[1] |= if headers.id.protocol == protocol::TCP { TCP } else { 0 };
        }
        let partial = matches!(self.offload.checksum, Checksum::Partial { .. });
        let transport = headers.is_some_and(|headers| matches!(headers.id.protocol, protocol::TCP | protocol::UDP));
        if (partial && !transport) || (self.offload.segmentation.is_some() && !partial) {
            return None;
        }
        let size = self.offload.segmentation.map_or(0, |segmentation| segmentation.size);
        bytes[4..6].copy_from_slice(&size.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.vlan.unwrap_or(0).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.context.to_be_bytes());
        Some(bytes)
    }
}

impl fmt::Display for Stt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "STT {}", self.context)?;
        if let Some(vlan) = self.vlan {
            write!(f, " vlan {}", vlan & 0x0fff)?;
        }
        match self.offload.segmentation {
            Some(segmentation) => write!(f, " mss {}", segmentation.size),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_piece_survives_the_circle() {
        let segment = Segment { source_port: 50_000, destination_port: PORT, frame_length: 3000, offset: 1400, id: 0x0102_0304 };
        assert_eq!(Segment::parse(&segment.emit()), Ok((segment, SEGMENT_LENGTH)));
        assert_eq!(segment.emit()[4..8], [0x0b, 0xb8, 0x05, 0x78], "the sequence number is length and offset");
    }

    #[test]
    fn a_piece_outside_its_frame_is_refused() {
        let segment = Segment { frame_length: 100, ..Segment::default() };
        assert!(Segment::parse(&segment.emit()).is_ok());
        assert_eq!(Segment::parse(&Segment { offset: 100, ..segment }.emit()), Err(Malformed::Tunnel));
        assert_eq!(Segment::parse(&Segment { frame_length: LENGTH as u16, ..segment }.emit()), Err(Malformed::Tunnel));
    }

    #[test]
    fn the_header_of_a_frame_survives_the_circle() {
        let mut bytes = Vec::new();
        let ip = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([0xfd; 16], [0xfe; 16], 64);
        ip.tcp(1, 2, 3, 4).write(&mut bytes, &[]).unwrap();
        let headers = Headers::parse(&bytes).unwrap();
        let checksum = Checksum::Partial { start: 54, field: 16 };
        let segmentation = Some(Segmentation { kind: SegmentationKind::Tcp6 { ecn: false }, size: 1400, header_length: 0 });
        for offload in [Offload::NONE, Offload { checksum, segmentation: None }, Offload { checksum, segmentation }] {
            let header = Stt { context: 1 << 40 | 7, vlan: Some(0x2005), offload };
            assert_eq!(Stt::parse(&header.emit(Some(&headers)).unwrap()), Ok(header));
        }
        let header = Stt { context: 7, vlan: Some(0x2005), offload: Offload { checksum, segmentation } };
        assert_eq!(header.to_string(), "STT 7 vlan 5 mss 1400");
        assert_eq!(header.emit(None), None, "of what is no packet, nothing can be asked for");
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = Stt::default().emit(None).unwrap();
        bytes[0] = 1;
        assert_eq!(Stt::parse(&bytes), Err(Malformed::Tunnel));
    }
}
