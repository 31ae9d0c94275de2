//! Frames: how a batch of changes stands in the file.
//!
//! ```text
//! file    = header frame*
//! header  = magic:[u8;12] format:u32
//! frame   = length:u32 sum:u32 check:u32 payload        sum is over the payload, check over length and sum
//! ```
//!
//! Numbers are little-endian. A frame counts whole or not at all, which is what makes a batch atomic. The second check
//! tells a frame that was cut off by a crash, whose head is sound, from one whose head is damaged.

use std::io::{self, Write};

use crate::Format;

/// Length of magic and format number.
pub(crate) const HEADER_LENGTH: usize = 16;

/// Length of what stands before a payload.
pub(crate) const HEAD_LENGTH: usize = 12;

/// No batch comes near this; a larger number is damage.
pub(crate) const LARGEST_PAYLOAD: u32 = 1 << 30;

/// Payload of one frame of a new file.
const SNAPSHOT_FRAME: usize = 256 << 10;

/// The header of a file in this format.
pub(crate) fn header(format: Format) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    header[..12].copy_from_slice(format.magic);
    header[12..].copy_from_slice(&format.number.to_le_bytes());
    header
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) length: u32,
    pub(crate) sum: u32,
}

impl Head {
    /// Reads a head; none if it is damaged.
    pub(crate) fn read(bytes: &[u8; HEAD_LENGTH]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let sound = crc32fast::hash(&bytes[..8]) == number(8) && number(0) <= LARGEST_PAYLOAD;
        sound.then(|| Self { length: number(0), sum: number(4) })
    }
}

/// A frame in the making.
#[derive(Debug)]
pub struct FrameWriter {
    bytes: Vec<u8>,
}

impl FrameWriter {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; HEAD_LENGTH] }
    }

    /// Bytes of payload so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - HEAD_LENGTH
    }

    /// Adds one byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Adds bytes whose number the reader knows.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a text of any length.
    pub fn text(&mut self, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text);
    }

    /// The finished frame.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let sum = crc32fast::hash(&self.bytes[HEAD_LENGTH..]);
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        let check = crc32fast::hash(&self.bytes[..8]);
        self.bytes[8..HEAD_LENGTH].copy_from_slice(&check.to_le_bytes());
        self.bytes
    }
}

/// The frames of a new file, begun and ended as the entries need.
pub struct Snapshot<'a> {
    target: &'a mut dyn Write,
    frame: FrameWriter,
    length: u64,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("length", &self.length).finish_non_exhaustive()
    }
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(target: &'a mut dyn Write) -> Self {
        Self { target, frame: FrameWriter::new(), length: 0 }
    }

    /// Writes an entry, and the frame with it once that is long enough.
    pub fn entry(&mut self, fill: impl FnOnce(&mut FrameWriter)) -> io::Result<()> {
        fill(&mut self.frame);
        match self.frame.len() >= SNAPSHOT_FRAME {
            true => self.emit(),
            false => Ok(()),
        }
    }

    fn emit(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.frame, FrameWriter::new()).finish();
        self.length += bytes.len() as u64;
        self.target.write_all(&bytes)
    }

    /// Writes the last frame. Returns how many bytes all of them take.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.emit()?;
        Ok(self.length)
    }
}

/// The rest of a payload.
#[derive(Debug)]
pub struct PayloadReader<'a>(&'a [u8]);

impl<'a> PayloadReader<'a> {
    /// Begins to read.
    pub fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("an entry that ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads bytes of a known number.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "an entry that ends too early".to_owned())
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a number.
    pub fn number(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a text of any length.
    pub fn text(&mut self) -> Result<&'a [u8], String> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(length as usize)
    }
}
