//! Ports of the host that guests have reserved.
//!
//! A reservation lasts until it is released or the service ends; Windows ties it to a handle of the process that asked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hcn::error::{Error, Result, detail};
use hcn::{Field, Guid, Path, parse_value};
use serde_json::{Value, json};

use crate::machine::Machine;

/// Where ranges are looked for.
const DYNAMIC: std::ops::RangeInclusive<u16> = 49152..=65535;

const EXCLUSIVE: u32 = 1;
const BOTH_PROTOCOLS: u32 = 3;

#[derive(Clone, Debug)]
struct Reservation {
    owner: Guid,
    protocol: u32,
    access: u32,
    first: u16,
    last: u16,
}

impl Reservation {
    fn conflicts(&self, other: &Reservation) -> bool {
        let overlaps = self.first <= other.last && other.first <= self.last;
        overlaps && self.protocol & other.protocol != 0 && (self.access == EXCLUSIVE || other.access == EXCLUSIVE)
    }

    fn to_json(&self, id: u64) -> Value {
        json!({
            "ID": id,
            "Owner": self.owner.to_string(),
            "Protocol": self.protocol,
            "Access": self.access,
            "StartingPort": self.first,
            "EndingPort": self.last,
        })
    }
}

/// The reservations of one service.
#[derive(Debug, Default)]
pub struct Reservations {
    inner: Mutex<(u64, BTreeMap<u64, Reservation>)>,
}

impl Reservations {
    /// All reservations.
    pub fn list(&self) -> Value {
        Value::Array(self.lock().1.iter().map(|(id, reservation)| reservation.to_json(*id)).collect())
    }

    /// Gives a reservation back.
    pub fn release(&self, id: &str) -> Result<()> {
        let removed = id.parse().ok().and_then(|id: u64| self.lock().1.remove(&id));
        removed.map(drop).ok_or_else(|| Error::NotFound(detail(format!("there is no reservation {id:?}")).remedy("list the reservations")))
    }

    /// Reserves what a request asks for: one port, or a number of ports in a row.
    pub(crate) fn reserve(&self, request: &str, machine: &dyn Machine) -> Result<Value> {
        let request = parse_value(request)?;
        let number = |name: &str, default: u32| match request.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => u32::read(value.clone(), &Path::Root.key(name)),
        };
        let owner = match request.get("Owner") {
            None | Some(Value::Null) => Guid::nil(),
            Some(owner) => Guid::read(owner.clone(), &Path::Root.key("Owner"))?,
        };
        let (protocol, access) = (number("Protocol", BOTH_PROTOCOLS)?, number("Access", EXCLUSIVE)?);
        if !(1..=3).contains(&protocol) || !(1..=2).contains(&access) {
            let cause = format!("protocol {protocol} or access {access} is unknown");
            return Err(Error::InvalidParameter(detail(cause).field("Protocol").remedy("use protocol 1 to 3 and access 1 or 2")));
        }
        let make = |first: u16, last: u16| Reservation { owner, protocol, access, first, last };
        let mut inner = self.lock();
        let wanted = match (number("Port", 0)?, number("Count", 0)?) {
            (port @ 1..=65535, 0) => self::one(&inner.1, make(port as u16, port as u16), machine)?,
            (0, count @ 1..=16384) => self::range(&inner.1, count as u16, make)?,
            (port, count) => {
                let cause = format!("port {port} and count {count} make no reservation");
                return Err(Error::InvalidParameter(detail(cause).field("Port").remedy("give either Port or Count")));
            }
        };
        inner.0 += 1;
        let id = inner.0;
        let answer = wanted.to_json(id);
        inner.1.insert(id, wanted);
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Reservation>)> {
        // Every change is one insert or one remove, so that a panic leaves nothing half-done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one(taken: &BTreeMap<u64, Reservation>, wanted: Reservation, machine: &dyn Machine) -> Result<Reservation> {
    let by_socket = [(1, 6), (2, 17)].iter().any(|(bit, number)| wanted.protocol & bit != 0 && machine.port_in_use(*number, wanted.first));
    if by_socket || taken.values().any(|other| other.conflicts(&wanted)) {
        let cause = format!("port {} is taken", wanted.first);
        return Err(Error::SharingViolation(detail(cause).field("Port").remedy("choose another port")));
    }
    Ok(wanted)
}

fn range(taken: &BTreeMap<u64, Reservation>, count: u16, make: impl Fn(u16, u16) -> Reservation) -> Result<Reservation> {
    // All that could be in the way, by their first port: one walk finds the first gap that is wide enough.
    let everything = make(*DYNAMIC.start(), *DYNAMIC.end());
    let mut others: Vec<(u16, u16)> =
        taken.values().filter(|other| other.conflicts(&everything)).map(|other| (other.first, other.last)).collect();
    others.sort_unstable();
    let mut first = u32::from(*DYNAMIC.start());
    for (other_first, other_last) in others.into_iter().map(|(first, last)| (u32::from(first), u32::from(last))).chain([(65536, 65536)]) {
        if first + u32::from(count) <= other_first {
            return Ok(make(first as u16, (first + u32::from(count) - 1) as u16));
        }
        first = first.max(other_last + 1);
    }
    Err(Error::SharingViolation(detail(format!("no {count} ports in a row are free")).field("Count").remedy("ask for fewer ports")))
}
