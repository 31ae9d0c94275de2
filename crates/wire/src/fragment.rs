//! Pieces of IP packets: what a header says about them, and cutting an IPv4 packet.

use crate::number::{ether_type, protocol};
use crate::offload::Checksum;
use crate::segment::write_ipv4_checksum;
use crate::{Frame, Headers, Malformed};

/// The bits of the offset, which counts in units of eight bytes.
pub(crate) const OFFSET_V4: u16 = 0x1fff;
/// The bits of the offset, which counts bytes, as it is a multiple of eight.
pub(crate) const OFFSET_V6: u16 = 0xfff8;

const MORE_V4: u16 = 0x2000;
const DONT_FRAGMENT_V4: u16 = 0x4000;
const MORE_V6: u16 = 1;

const EXTENSIONS_MAX: usize = 8;

/// What an IP packet says about being a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Where the piece starts in the payload of the whole, in bytes.
    pub offset: u16,
    /// Whether pieces follow it.
    pub more: bool,
    /// Whether it must not be cut (further). An IPv6 packet never is on its way.
    pub dont_fragment: bool,
}

impl Fragmentation {
    /// Reads it from a frame. `None` if the frame is no IP packet.
    pub fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        let packet = frame.get(usize::from(headers.l3)..headers.end as usize)?;
        match headers.ether_type {
            ether_type::IPV4 => {
                let word = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
                let offset = (word & OFFSET_V4) << 3;
                Some(Self { offset, more: word & MORE_V4 != 0, dont_fragment: word & DONT_FRAGMENT_V4 != 0 })
            }
            ether_type::IPV6 => {
                let word = Extensions::walk(packet, *packet.get(6)?).ok()?.offset.unwrap_or(0);
                Some(Self { offset: word & OFFSET_V6, more: word & MORE_V6 != 0, dont_fragment: true })
            }
            _ => None,
        }
    }
}

/// What stands between an IPv6 header and its transport header.
pub(crate) struct Extensions {
    /// The protocol behind it.
    pub(crate) next: u8,
    /// How long all headers are together.
    pub(crate) length: usize,
    /// The word with the offset, if the packet is a piece.
    pub(crate) offset: Option<u16>,
}

impl Extensions {
    /// Walks over the extension headers of a packet whose fixed header names `first`. Nothing is read behind the header
    /// of a later fragment. The packet may be cut off where they end.
    pub(crate) fn walk(packet: &[u8], first: u8) -> Result<Self, Malformed> {
        let mut walked = Self { next: first, length: 40, offset: None };
        for _ in 0..EXTENSIONS_MAX {
            let is_extension =
                matches!(walked.next, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS | protocol::FRAGMENT);
            if !is_extension {
                return Ok(walked);
            }
            let header = packet.get(walked.length..).and_then(|bytes| bytes.first_chunk::<8>()).ok_or(Malformed::Truncated)?;
            if walked.next == protocol::FRAGMENT {
                walked.offset = Some(u16::from_be_bytes([header[2], header[3]]));
                walked.length += 8;
            } else {
                walked.length += 8 + 8 * usize::from(header[1]);
            }
            walked.next = header[0];
            if walked.offset.is_some_and(|offset| offset & OFFSET_V6 != 0) {
                return Ok(walked);
            }
        }
        Err(Malformed::ExtensionHeaders)
    }
}

/// Cuts an IPv4 packet into pieces of at most `mtu` bytes each and hands them to `each`, made in `piece`. A packet that is
/// not larger is handed on whole. Answers how many there were.
///
/// `None`, with nothing handed on, if the frame may not or cannot be cut: it is not IPv4 or forbids it, something is left
/// to do on it that only the whole allows, or the MTU leaves no room for a payload.
pub fn fragment4(frame: &Frame, headers: &Headers, mtu: usize, piece: &mut Frame, mut each: impl FnMut(&mut Frame)) -> Option<usize> {
    let cut = Cut::plan(frame, headers, mtu)?;
    if cut.header.len() + cut.payload.len() <= mtu {
        piece.copy_from(frame);
        each(piece);
        return Some(1);
    }
    let mut at = 0;
    let mut count = 0;
    while at < cut.payload.len() {
        at += cut.piece(at, piece);
        each(piece);
        count += 1;
    }
    Some(count)
}

/// An IPv4 packet that is to be cut.
struct Cut<'a> {
    link: &'a [u8],
    header: &'a [u8],
    payload: &'a [u8],
    own: Fragmentation,
    mtu: usize,
}

impl<'a> Cut<'a> {
    fn plan(frame: &'a Frame, headers: &Headers, mtu: usize) -> Option<Self> {
        let open = matches!(frame.offload.checksum, Checksum::Partial { .. }) || frame.offload.segmentation.is_some();
        let own = Fragmentation::of(frame.bytes(), headers).filter(|own| !own.dont_fragment && !open)?;
        let packet = frame.bytes().get(..headers.end as usize)?;
        let (link, rest) = packet.split_at_checked(usize::from(headers.l3))?;
        let (header, payload) = rest.split_at_checked(usize::from(headers.l4.checked_sub(headers.l3)?))?;
        let reaches = usize::from(own.offset) + payload.len() <= usize::from(u16::MAX);
        (header.len() >= 20 && mtu >= header.len() + 8 && reaches).then_some(Self { link, header, payload, own, mtu })
    }

    /// Makes the piece that starts at `at` in the payload, and answers how much of it that was.
    fn piece(&self, at: usize, piece: &mut Frame) -> usize {
        let mut room = [0; 60];
        let length = if at == 0 { whole_header(self.header, &mut room) } else { later_header(self.header, &mut room) };
        let header = &mut room[..length];
        let taken = (self.mtu - length).min(self.payload.len() - at);
        let last = at + taken == self.payload.len();
        // All pieces but the last are a multiple of eight, as the offset counts so.
        let taken = if last { taken } else { taken & !7 };
        let more = if !last || self.own.more { MORE_V4 } else { 0 };
        let offset = (usize::from(self.own.offset) + at) as u16 >> 3;
        header[2..4].copy_from_slice(&((length + taken) as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(more | offset).to_be_bytes());
        write_ipv4_checksum(header);
        piece.fill(self.link);
        piece.append(header);
        piece.append(&self.payload[at..at + taken]);
        taken
    }
}

fn whole_header(header: &[u8], room: &mut [u8; 60]) -> usize {
    let length = header.len().min(room.len());
    room[..length].copy_from_slice(&header[..length]);
    length
}

/// The header of pieces but the first, which has only those options that ask to be copied (RFC 791, 3.1).
fn later_header(header: &[u8], room: &mut [u8; 60]) -> usize {
    const COPIED: u8 = 0x80;
    room[..20].copy_from_slice(&header[..20]);
    let (mut at, mut length) = (20, 20);
    while let Some(kind) = header.get(at).filter(|kind| **kind != 0) {
        let size = match (*kind, header.get(at + 1)) {
            (1, _) => 1,
            (_, Some(size)) => usize::from(*size),
            (_, None) => break,
        };
        let Some(option) = header.get(at..at + size).filter(|option| !option.is_empty()) else {
            break;
        };
        if kind & COPIED != 0 {
            room[length..length + size].copy_from_slice(option);
            length += size;
        }
        at += size;
    }
    length = length.next_multiple_of(4);
    room[0] = 0x40 | (length / 4) as u8;
    length
}
