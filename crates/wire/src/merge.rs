//! Joining TCP segments that arrive one after another into one large frame, as a NIC does on receive: the reverse of
//! [`crate::segment`].
//!
//! What is joined can be taken apart again into what arrived: same headers, same order, same borders; only an
//! identification that means nothing may come out otherwise. So a segment joins a train only if it continues it without
//! a gap, and differs in nothing that a piece could not differ in.
//! Anything else is passed on as it came, also a segment whose checksum is wrong: that is for its receiver to judge.

use crate::number::{ether_type, protocol, tcp_flag};
use crate::offload::{Checksum, Segmentation, SegmentationKind};
use crate::segment::write_ipv4_checksum;
use crate::{Fragment, Frame, Headers, Kind, Malformed, Offload, checksum};

/// The longest IP packet, which bounds a train.
const PACKET_MAX: usize = 65_535;

/// Flags that one segment of a train may have and another not. The rest must be the same on all.
const ENDS: u8 = tcp_flag::FIN | tcp_flag::PSH;

const URG: u8 = 0x20;

/// Flags of which every one is an event that must reach the receiver on its own.
const ALONE: u8 = tcp_flag::SYN | tcp_flag::RST | URG;

const DO_NOT_FRAGMENT: u8 = 0x40;

/// A train of segments, growing in a frame that the caller has. The frame starts as the first segment:
///
/// ```
/// # fn pass_on(_: &wire::Frame) {}
/// # let (mut frame, segments) = (wire::Frame::default(), [[0u8; 60], [1u8; 60]]);
/// let mut train = wire::merge::Train::default();
/// for segment in &segments {
///     if !train.append(&mut frame, segment) {
///         train.finish(&mut frame);
///         pass_on(&frame);
///         frame.fill(segment);
///     }
/// }
/// train.finish(&mut frame);
/// pass_on(&frame);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Train {
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The frame has not been looked at: most stay alone, and for them nothing is to be done.
    #[default]
    Unread,
    /// The frame takes no more.
    Closed { merged: Option<Head> },
    /// The frame is a sound segment, and those after it may join.
    Open(Head),
}

/// What is known of a train.
#[derive(Clone, Copy, Debug)]
struct Head {
    headers: Headers,
    /// Payload of each segment.
    size: usize,
    /// How many there are.
    count: usize,
    /// The sequence number that comes next.
    next: u32,
}

impl Train {
    /// Adds a segment to the frame if it continues it. Otherwise the answer is false and nothing was changed; the
    /// caller then calls [`Self::finish`], passes the frame on and begins anew with the segment.
    pub fn append(&mut self, frame: &mut Frame, segment: &[u8]) -> bool {
        if let State::Unread = self.state {
            self.state = match Head::read(frame) {
                Some(head) => State::Open(head),
                None => State::Closed { merged: None },
            };
        }
        let State::Open(head) = &mut self.state else {
            return false;
        };
        let Some(tail) = Tail::read(segment) else {
            return false;
        };
        if !head.takes(frame.bytes(), &tail) {
            return false;
        }
        if let Some(merged) = head.join(frame, &tail) {
            self.state = State::Closed { merged: Some(merged) };
        }
        true
    }

    /// Makes a whole of the frame: its lengths and checksums are those of one packet, to be cut where it was joined.
    /// The train is then ready for the next frame.
    pub fn finish(&mut self, frame: &mut Frame) {
        let state = std::mem::take(&mut self.state);
        let (State::Open(head) | State::Closed { merged: Some(head) }) = state else {
            return;
        };
        if head.count > 1 {
            head.write(frame);
        }
    }
}

/// A segment that may join.
struct Tail<'a> {
    bytes: &'a [u8],
    headers: Headers,
    payload: &'a [u8],
}

impl<'a> Tail<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let headers = Headers::parse(bytes).ok()?;
        let payload = bytes.get(usize::from(headers.payload)..headers.end as usize)?;
        (is_plain(&headers) && !payload.is_empty()).then_some(Self { bytes, headers, payload })
    }

    fn transport(&self) -> &'a [u8] {
        &self.bytes[usize::from(self.headers.l4)..]
    }
}

/// Whether this is TCP data without anything that only the first or the last segment of a train could have:
/// IP options, extension headers, a fragment, or flags that stand for an event.
fn is_plain(headers: &Headers) -> bool {
    let network = match headers.ether_type {
        ether_type::IPV4 => 20,
        ether_type::IPV6 => 40,
        _ => return false,
    };
    headers.kind == Kind::Ip
        && headers.id.protocol == protocol::TCP
        && headers.fragment == Fragment::Whole
        && headers.l4 == headers.l3 + network
        && headers.tcp_flags & tcp_flag::ACK != 0
        && headers.tcp_flags & ALONE == 0
}

/// Whether the checksum of a TCP segment is right.
fn is_sound(bytes: &[u8], headers: &Headers) -> Result<bool, Malformed> {
    let segment = bytes.get(usize::from(headers.l4)..headers.end as usize).ok_or(Malformed::Truncated)?;
    let pseudo = checksum::pseudo_header(headers.id.source, headers.id.destination, protocol::TCP, segment.len() as u32);
    Ok(checksum::add(pseudo, checksum::sum(segment)) == 0xffff)
}

fn sequence(transport: &[u8]) -> u32 {
    u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]])
}

impl Head {
    /// What a frame is as the first of a train; `None` if it cannot be that.
    fn read(frame: &Frame) -> Option<Self> {
        let bytes = frame.bytes();
        let tail = Tail::read(bytes)?;
        let complete = !matches!(frame.offload.checksum, Checksum::Partial { .. }) && frame.offload.segmentation.is_none();
        let ends = tail.headers.tcp_flags & ENDS != 0;
        if !complete || ends || !is_sound(bytes, &tail.headers).unwrap_or(false) {
            return None;
        }
        let size = tail.payload.len();
        let next = sequence(tail.transport()).wrapping_add(size as u32);
        Some(Self { headers: tail.headers, size, count: 1, next })
    }

    /// Whether the segment continues this train.
    fn takes(&self, bytes: &[u8], tail: &Tail<'_>) -> bool {
        let packet = self.headers.payload - self.headers.l3;
        let total = usize::from(packet) + self.size * self.count + tail.payload.len();
        tail.payload.len() <= self.size
            && total <= PACKET_MAX
            && tail.headers.payload == self.headers.payload
            && sequence(tail.transport()) == self.next
            && tail.headers.tcp_flags & tcp_flag::CWR == 0
            && self.same_ethernet(bytes, tail)
            && self.same_network(bytes, tail)
            && self.same_transport(bytes, tail)
            && is_sound(tail.bytes, &tail.headers).unwrap_or(false)
    }

    fn same_ethernet(&self, bytes: &[u8], tail: &Tail<'_>) -> bool {
        let l3 = usize::from(self.headers.l3);
        self.headers.l3 == tail.headers.l3 && self.headers.l4 == tail.headers.l4 && bytes[..l3] == tail.bytes[..l3]
    }

    /// The same but for length, identification and checksum. So congestion marks are the same, and none gets lost.
    fn same_network(&self, bytes: &[u8], tail: &Tail<'_>) -> bool {
        let range = usize::from(self.headers.l3)..usize::from(self.headers.l4);
        let (first, other) = (&bytes[range.clone()], &tail.bytes[range]);
        if !self.headers.id.source.is_v4() {
            return first[..4] == other[..4] && first[6..] == other[6..];
        }
        // Where nobody may fragment, the identification means nothing (RFC 6864, 4); elsewhere pieces count upwards.
        let id = |header: &[u8]| u16::from_be_bytes([header[4], header[5]]);
        let free = first[6] & DO_NOT_FRAGMENT != 0;
        let follows = free || id(other) == id(first).wrapping_add(self.count as u16);
        follows && first[..2] == other[..2] && first[6..10] == other[6..10] && first[12..] == other[12..]
    }

    /// The same but for sequence number, checksum, and flags that end a train; the first one may have an answer to
    /// congestion besides.
    fn same_transport(&self, bytes: &[u8], tail: &Tail<'_>) -> bool {
        let range = usize::from(self.headers.l4)..usize::from(self.headers.payload);
        let (first, other) = (&bytes[range.clone()], &tail.bytes[range]);
        let flags = (first[13] ^ other[13]) & !(ENDS | tcp_flag::CWR);
        flags == 0
            && first[..4] == other[..4]
            && first[8..13] == other[8..13]
            && first[14..16] == other[14..16]
            && first[18..] == other[18..]
    }

    /// Takes the segment in. Answers itself if nothing can follow.
    fn join(&mut self, frame: &mut Frame, tail: &Tail<'_>) -> Option<Self> {
        if self.count == 1 {
            // Short frames come with padding.
            frame.truncate(self.headers.end as usize);
        }
        frame.append(tail.payload);
        self.count += 1;
        self.next = self.next.wrapping_add(tail.payload.len() as u32);
        let ends = tail.headers.tcp_flags & ENDS;
        frame.bytes_mut()[usize::from(self.headers.l4) + 13] |= ends;
        (ends != 0 || tail.payload.len() < self.size).then_some(*self)
    }

    fn write(&self, frame: &mut Frame) {
        let (l3, l4) = (usize::from(self.headers.l3), usize::from(self.headers.l4));
        let id = self.headers.id;
        let v4 = id.source.is_v4();
        let bytes = frame.bytes_mut();
        let total = bytes.len() - l3;
        if v4 {
            bytes[l3 + 2..l3 + 4].copy_from_slice(&(total as u16).to_be_bytes());
            write_ipv4_checksum(&mut bytes[l3..l4]);
        } else {
            bytes[l3 + 4..l3 + 6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        }
        let pseudo = checksum::pseudo_header(id.source, id.destination, protocol::TCP, (bytes.len() - l4) as u32);
        bytes[l4 + 16..l4 + 18].copy_from_slice(&pseudo.to_be_bytes());
        let ecn = self.headers.tcp_flags & tcp_flag::CWR != 0;
        frame.offload = Offload {
            checksum: Checksum::Partial { start: self.headers.l4, field: 16 },
            segmentation: Some(Segmentation {
                kind: if v4 { SegmentationKind::Tcp4 { ecn } } else { SegmentationKind::Tcp6 { ecn } },
                size: self.size as u16,
                header_length: self.headers.payload,
            }),
        };
    }
}

#[cfg(test)]
mod tests;
