//! Frames: how a batch of changes stands in the file.
//!
//! ```text
//! file    = header frame*
//! header  = "transom-hns\0" format:u32
//! frame   = length:u32 sum:u32 check:u32 payload        sum is over the payload, check over length and sum
//! payload = entry*
//! entry   = 1 kind:u8 id:[u8;16] length:u32 json        an object as it is from now on
//!         | 2 kind:u8 id:[u8;16]                        an object that is gone
//!         | 3 length:u32 text                           the management MAC addresses
//!         | 4 sequence:u64 revision:u64 compartment:u64 the numbers to give out next
//! ```
//!
//! Numbers are little-endian. A frame counts whole or not at all, which is what makes a batch atomic. The second check
//! tells a frame that was cut off by a crash, whose head is sound, from one whose head is damaged.

use hcn::Guid;
use hcn::api::Kind;

use super::Change;
use crate::record::AnyRecord;
use crate::state::State;

/// What every state file begins with.
pub(super) const MAGIC: &[u8; 12] = b"transom-hns\0";

/// Length of magic and format number.
pub(super) const HEADER_LENGTH: usize = 16;

/// Length of what stands before a payload.
pub(super) const HEAD_LENGTH: usize = 12;

/// No batch comes near this; a larger number is damage.
pub(super) const LARGEST_PAYLOAD: u32 = 1 << 30;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const MANAGEMENT_MACS: u8 = 3;
const COUNTERS: u8 = 4;

/// The header of a file in this format.
pub(super) fn header(format: u32) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    header[..12].copy_from_slice(MAGIC);
    header[12..].copy_from_slice(&format.to_le_bytes());
    header
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub length: u32,
    pub sum: u32,
}

impl Head {
    /// Reads a head; none if it is damaged.
    pub(super) fn read(bytes: &[u8; HEAD_LENGTH]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let sound = crc32fast::hash(&bytes[..8]) == number(8) && number(0) <= LARGEST_PAYLOAD;
        sound.then(|| Self { length: number(0), sum: number(4) })
    }
}

/// A frame in the making.
#[derive(Debug)]
pub(super) struct FrameWriter {
    bytes: Vec<u8>,
}

impl FrameWriter {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEAD_LENGTH] }
    }

    /// Bytes of payload so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - HEAD_LENGTH
    }

    pub(super) fn change(&mut self, change: &Change) {
        match change {
            Change::Put(record) => self.put(record),
            Change::Remove(kind, id) => {
                self.bytes.push(REMOVE);
                self.object(*kind, *id);
            }
            Change::ManagementMacs(macs) => self.management_macs(macs),
        }
    }

    pub(super) fn put(&mut self, record: &AnyRecord) {
        self.bytes.push(PUT);
        self.object(record.kind(), record.id());
        self.text(&record.to_bytes());
    }

    pub(super) fn management_macs(&mut self, macs: &[String]) {
        self.bytes.push(MANAGEMENT_MACS);
        self.text(macs.join(",").as_bytes());
    }

    pub(super) fn counters(&mut self, state: &State) {
        self.bytes.push(COUNTERS);
        for number in [state.next_sequence, state.next_revision, u64::from(state.next_compartment)] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// The finished frame.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let sum = crc32fast::hash(&self.bytes[HEAD_LENGTH..]);
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        let check = crc32fast::hash(&self.bytes[..8]);
        self.bytes[8..HEAD_LENGTH].copy_from_slice(&check.to_le_bytes());
        self.bytes
    }

    fn object(&mut self, kind: Kind, id: Guid) {
        self.bytes.push(kind_number(kind));
        self.bytes.extend_from_slice(id.as_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text);
    }
}

/// Applies the entries of a payload to a state.
pub(super) fn apply(payload: &[u8], state: &mut State) -> Result<(), String> {
    let mut reader = Reader(payload);
    while !reader.0.is_empty() {
        match reader.byte()? {
            PUT => {
                let (kind, id) = reader.object()?;
                let record = AnyRecord::from_bytes(kind, reader.text()?).map_err(|error| error.to_string())?;
                if record.id() != id {
                    return Err(format!("the record of {id} is that of {}", record.id()));
                }
                state.put(record);
            }
            REMOVE => {
                let (kind, id) = reader.object()?;
                state.remove(kind, id);
            }
            MANAGEMENT_MACS => {
                let text = String::from_utf8_lossy(reader.text()?).into_owned();
                state.management_macs = text.split(',').filter(|mac| !mac.is_empty()).map(str::to_owned).collect();
            }
            COUNTERS => {
                state.next_sequence = state.next_sequence.max(reader.number()?);
                state.next_revision = state.next_revision.max(reader.number()?);
                let compartment = u32::try_from(reader.number()?).map_err(|_| "a compartment beyond all numbers")?;
                state.next_compartment = state.next_compartment.max(compartment);
            }
            other => return Err(format!("an entry of the unknown kind {other}")),
        }
    }
    Ok(())
}

/// The rest of a payload.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("an entry that ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "an entry that ends too early".to_owned())
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn object(&mut self) -> Result<(Kind, Guid), String> {
        let number = self.byte()?;
        let kind = Kind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
        let kind = kind.ok_or_else(|| format!("an object of the unknown kind {number}"))?;
        Ok((kind, Guid::from_bytes(self.array()?)))
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(length as usize)
    }
}

/// The numbers are part of the format.
fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::Network => 1,
        Kind::Namespace => 2,
        Kind::Endpoint => 3,
        Kind::LoadBalancer => 4,
        Kind::Route => 5,
        Kind::GuestNetworkService => 6,
    }
}
