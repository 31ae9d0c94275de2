//! Putting the pieces of STT frames together.

use std::ops::Range;

use super::{LENGTH, Segment};
use crate::number::protocol;
use crate::{Fragment, Frame, Headers, Ip, Kind, Malformed, outer};

/// How many frames may be incomplete at a time. With one more, the one that has waited longest is given up.
pub const FRAMES_MAX: usize = 32;

/// How many separate stretches of a frame may be there before it is given up. Pieces arrive in order but for a few.
const STRETCHES_MAX: usize = 16;

/// Frames of which some pieces are missing. It takes at most [`FRAMES_MAX`] × 64 KiB and, having no clock, gives up a
/// frame only for the room of another.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// The one that has waited longest first.
    frames: Vec<Incomplete>,
}

#[derive(Debug)]
struct Incomplete {
    source: Ip,
    destination: Ip,
    ports: (u16, u16),
    id: u32,
    bytes: Vec<u8>,
    /// What is there, in order and apart from each other.
    stretches: Vec<Range<usize>>,
}

impl Reassembler {
    /// Takes a piece: the segment that `headers` found in `frame`. If it completes its STT frame, `frame` is from then on
    /// that, with the STT header in front, for [`open_stt`](crate::outer::open_stt). Whether it did.
    pub fn accept(&mut self, frame: &mut Frame, headers: &Headers) -> Result<bool, Malformed> {
        if headers.kind != Kind::Ip || headers.id.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
            return Err(Malformed::Tunnel);
        }
        outer::verify(frame, headers)?;
        let bytes = frame.bytes().get(usize::from(headers.l4)..headers.end as usize).ok_or(Malformed::Truncated)?;
        let (segment, header) = Segment::parse(bytes)?;
        let piece = &bytes[header..];
        let range = usize::from(segment.offset)..usize::from(segment.offset) + piece.len();
        if piece.is_empty() || range.end > usize::from(segment.frame_length) {
            return Err(Malformed::Tunnel);
        }
        let at = self.find(&segment, headers);
        let incomplete = &mut self.frames[at];
        // Pieces of one frame agree on its length, or somebody is making them up.
        if incomplete.bytes.len() != usize::from(segment.frame_length) {
            self.frames.remove(at);
            return Err(Malformed::Tunnel);
        }
        incomplete.bytes[range.clone()].copy_from_slice(piece);
        if !incomplete.add(range) {
            self.frames.remove(at);
            return Err(Malformed::Tunnel);
        }
        if !incomplete.is_complete() {
            return Ok(false);
        }
        let complete = self.frames.remove(at);
        frame.fill(&complete.bytes);
        Ok(frame.len() > LENGTH)
    }

    /// How many frames are incomplete.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no frame is.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Where the frame of a piece is, which may be new.
    fn find(&mut self, segment: &Segment, headers: &Headers) -> usize {
        let (source, destination) = (headers.id.source, headers.id.destination);
        let ports = (segment.source_port, segment.destination_port);
        let same =
            |frame: &Incomplete| (frame.source, frame.destination, frame.ports, frame.id) == (source, destination, ports, segment.id);
        if let Some(at) = self.frames.iter().position(same) {
            return at;
        }
        if self.frames.len() == FRAMES_MAX {
            self.frames.remove(0);
        }
        let bytes = vec![0; usize::from(segment.frame_length)];
        self.frames.push(Incomplete { source, destination, ports, id: segment.id, bytes, stretches: Vec::new() });
        self.frames.len() - 1
    }
}

impl Incomplete {
    /// Notes that a stretch is there. Fails if it was there before, or if there are too many of them.
    fn add(&mut self, range: Range<usize>) -> bool {
        let at = self.stretches.partition_point(|other| other.start < range.start);
        let before = at.checked_sub(1).map(|at| self.stretches[at].end);
        let after = self.stretches.get(at).map(|next| next.start);
        if before.is_some_and(|end| end > range.start) || after.is_some_and(|start| start < range.end) {
            return false;
        }
        match (before == Some(range.start), after == Some(range.end)) {
            (true, true) => self.stretches[at - 1].end = self.stretches.remove(at).end,
            (true, false) => self.stretches[at - 1].end = range.end,
            (false, true) => self.stretches[at].start = range.start,
            (false, false) => self.stretches.insert(at, range),
        }
        self.stretches.len() <= STRETCHES_MAX
    }

    fn is_complete(&self) -> bool {
        self.stretches.len() == 1 && self.stretches[0] == (0..self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checksum;

    /// A piece of a frame, in an outer packet whose checksum the device has found right.
    fn piece(id: u32, offset: u16, frame_length: u16, payload: &[u8]) -> (Frame, Headers) {
        let segment = Segment { source_port: 1, destination_port: 7471, frame_length, offset, id };
        let mut bytes = Vec::new();
        let ip = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        ip.tcp(1, 7471, 0, 0).write(&mut bytes, payload).unwrap();
        bytes[34..54].copy_from_slice(&segment.emit());
        let mut frame = Frame::from_bytes(&bytes);
        frame.offload.checksum = Checksum::Verified;
        let headers = Headers::parse(&bytes).unwrap();
        (frame, headers)
    }

    fn accept(reassembler: &mut Reassembler, (mut frame, headers): (Frame, Headers)) -> Result<bool, Malformed> {
        reassembler.accept(&mut frame, &headers)
    }

    #[test]
    fn pieces_that_contradict_each_other_are_given_up() {
        let mut reassembler = Reassembler::default();
        assert_eq!(accept(&mut reassembler, piece(1, 0, 100, &[1; 50])), Ok(false));
        assert_eq!(accept(&mut reassembler, piece(1, 40, 100, &[1; 50])), Err(Malformed::Tunnel), "what was there before");
        assert!(reassembler.is_empty());
        assert_eq!(accept(&mut reassembler, piece(1, 0, 100, &[1; 50])), Ok(false));
        assert_eq!(accept(&mut reassembler, piece(1, 50, 90, &[1; 40])), Err(Malformed::Tunnel), "another length");
        assert!(reassembler.is_empty());
        assert_eq!(accept(&mut reassembler, piece(1, 60, 100, &[1; 50])), Err(Malformed::Tunnel), "more than the frame");
    }

    #[test]
    fn the_frame_that_waited_longest_makes_room() {
        let mut reassembler = Reassembler::default();
        for id in 0..=FRAMES_MAX as u32 {
            assert_eq!(accept(&mut reassembler, piece(id, 0, 100, &[1; 50])), Ok(false));
        }
        assert_eq!(reassembler.len(), FRAMES_MAX);
        assert_eq!(accept(&mut reassembler, piece(1, 50, 100, &[1; 50])), Ok(true));
        assert_eq!(accept(&mut reassembler, piece(0, 50, 100, &[1; 50])), Ok(false), "its beginning is gone");
    }

    #[test]
    fn a_frame_in_too_many_stretches_is_given_up() {
        let mut reassembler = Reassembler::default();
        for number in 0..STRETCHES_MAX as u16 {
            assert_eq!(accept(&mut reassembler, piece(1, number * 4, 1000, &[1; 2])), Ok(false));
        }
        assert_eq!(accept(&mut reassembler, piece(1, 900, 1000, &[1; 2])), Err(Malformed::Tunnel));
    }

    #[test]
    fn a_damaged_piece_is_refused() {
        let (mut frame, headers) = piece(1, 0, 100, &[1; 50]);
        frame.offload.checksum = Checksum::Complete;
        assert_eq!(Reassembler::default().accept(&mut frame, &headers), Err(Malformed::Tunnel));
    }
}
