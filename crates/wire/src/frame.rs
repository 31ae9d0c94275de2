//! A frame and the room around it.

use crate::Malformed;
use crate::offload::Offload;

/// Room before a frame for what encapsulation pushes and for the header that a device wants in front.
pub const HEADROOM: usize = 256;

/// The largest frame: an IP packet of full length behind an Ethernet header with two tags, and a little more.
pub const FRAME_MAX: usize = 65_535 + 65;

/// A frame in a buffer that is used again and again.
#[derive(Clone, Debug)]
pub struct Frame {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// What is left to do on it.
    pub offload: Offload,
}

impl Default for Frame {
    fn default() -> Self {
        Self { buffer: vec![0; HEADROOM + FRAME_MAX].into_boxed_slice(), start: HEADROOM, end: HEADROOM, offload: Offload::NONE }
    }
}

impl Frame {
    /// A frame with these bytes, cut at [`FRAME_MAX`].
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut frame = Self::default();
        frame.fill(bytes);
        frame
    }

    /// Replaces the frame by these bytes, with nothing left to do on it. What is over [`FRAME_MAX`] is cut.
    pub fn fill(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(FRAME_MAX);
        self.start = HEADROOM;
        self.end = HEADROOM + length;
        self.offload = Offload::NONE;
        self.buffer[HEADROOM..self.end].copy_from_slice(&bytes[..length]);
    }

    /// Replaces the frame by another one, in this buffer.
    pub fn copy_from(&mut self, other: &Self) {
        self.fill(other.bytes());
        self.offload = other.offload;
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Where to read into: room for `prefix` bytes that a device puts before the frame, then for the largest frame.
    /// [`Self::received`] ends it.
    pub fn receive_area(&mut self, prefix: usize) -> &mut [u8] {
        &mut self.buffer[HEADROOM - prefix..]
    }

    /// Says that `length` bytes were read into the area for this prefix. The frame is what follows the prefix.
    pub fn received(&mut self, prefix: usize, length: usize) -> Result<(), Malformed> {
        self.start = HEADROOM;
        self.end = HEADROOM;
        self.offload = Offload::NONE;
        let payload = length.checked_sub(prefix).ok_or(Malformed::Truncated)?;
        self.end = (HEADROOM + payload).min(self.buffer.len());
        Ok(())
    }

    /// The bytes just before the frame.
    pub fn prefix(&self, length: usize) -> &[u8] {
        &self.buffer[self.start.saturating_sub(length)..self.start]
    }

    /// Writes a device's header just before the frame and answers both together. The frame itself stays as it is.
    /// `None` if encapsulation has used up the room.
    pub fn with_prefix(&mut self, prefix: &[u8]) -> Option<&[u8]> {
        let from = self.start.checked_sub(prefix.len())?;
        self.buffer[from..self.start].copy_from_slice(prefix);
        Some(&self.buffer[from..self.end])
    }

    /// Makes the frame longer in front, and answers the new bytes with whatever they hold.
    pub fn push(&mut self, length: usize) -> Option<&mut [u8]> {
        let offload = self.offload.moved(i32::try_from(length).ok()?)?;
        let start = self.start.checked_sub(length)?;
        self.offload = offload;
        self.start = start;
        Some(&mut self.buffer[start..start + length])
    }

    /// Makes the frame shorter in front.
    pub fn pull(&mut self, length: usize) -> Result<(), Malformed> {
        if length > self.len() {
            return Err(Malformed::Truncated);
        }
        self.offload = i32::try_from(length).ok().and_then(|length| self.offload.moved(-length)).unwrap_or_default();
        self.start += length;
        Ok(())
    }

    /// Makes the frame end after `length` bytes, if it is longer.
    pub fn truncate(&mut self, length: usize) {
        self.end = self.end.min(self.start + length);
    }

    /// Adds bytes at the end, as many as there is room for, and says how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.buffer.len() - self.end);
        self.buffer[self.end..self.end + length].copy_from_slice(&bytes[..length]);
        self.end += length;
        length
    }
}
