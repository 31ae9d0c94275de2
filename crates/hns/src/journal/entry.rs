//! Entries: how changes stand in a frame.
//!
//! ```text
//! payload = entry*
//! entry   = 1 kind:u8 id:[u8;16] length:u32 json        an object as it is from now on
//!         | 2 kind:u8 id:[u8;16]                        an object that is gone
//!         | 3 length:u32 text                           the management MAC addresses
//!         | 4 sequence:u64 revision:u64 compartment:u64 the numbers to give out next
//! ```
//!
//! Numbers are little-endian.

use hcn::Guid;
use hcn::api::Kind;
use journal::{FrameWriter, PayloadReader};

use super::Change;
use crate::record::AnyRecord;
use crate::state::State;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const MANAGEMENT_MACS: u8 = 3;
const COUNTERS: u8 = 4;

pub(super) fn change(frame: &mut FrameWriter, change: &Change) {
    match change {
        Change::Put(record) => put(frame, record),
        Change::Remove(kind, id) => {
            frame.byte(REMOVE);
            write_object(frame, *kind, *id);
        }
        Change::ManagementMacs(macs) => management_macs(frame, macs),
    }
}

pub(super) fn put(frame: &mut FrameWriter, record: &AnyRecord) {
    frame.byte(PUT);
    write_object(frame, record.kind(), record.id());
    frame.text(&record.to_bytes());
}

pub(super) fn management_macs(frame: &mut FrameWriter, macs: &[String]) {
    frame.byte(MANAGEMENT_MACS);
    frame.text(macs.join(",").as_bytes());
}

pub(super) fn counters(frame: &mut FrameWriter, state: &State) {
    frame.byte(COUNTERS);
    for number in [state.next_sequence, state.next_revision, u64::from(state.next_compartment)] {
        frame.number(number);
    }
}

fn write_object(frame: &mut FrameWriter, kind: Kind, id: Guid) {
    frame.byte(kind_number(kind));
    frame.bytes(id.as_bytes());
}

/// Applies the entries of a payload to a state.
pub(super) fn apply(payload: &[u8], state: &mut State) -> Result<(), String> {
    let mut reader = PayloadReader::new(payload);
    while !reader.is_empty() {
        match reader.byte()? {
            PUT => {
                let (kind, id) = read_object(&mut reader)?;
                let record = AnyRecord::from_bytes(kind, reader.text()?).map_err(|error| error.to_string())?;
                if record.id() != id {
                    return Err(format!("the record of {id} is that of {}", record.id()));
                }
                state.put(record);
            }
            REMOVE => {
                let (kind, id) = read_object(&mut reader)?;
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

fn read_object(reader: &mut PayloadReader<'_>) -> Result<(Kind, Guid), String> {
    let number = reader.byte()?;
    let kind = Kind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
    let kind = kind.ok_or_else(|| format!("an object of the unknown kind {number}"))?;
    Ok((kind, Guid::from_bytes(reader.array()?)))
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
