//! The state file and its lock, both as the reference has them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::pool::{AddressSpace, or_default};
use crate::error::{Error, Result};
use crate::file;

/// The key of the state file that is ours; others are left alone.
const KEY: &str = "IPAM";
const LIMIT: u64 = 64 << 20;
/// The time between two looks at a lock that somebody has.
const PAUSE: Duration = Duration::from_millis(5);

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The state.
    pub(super) state: PathBuf,
    /// The lock.
    pub(super) lock: PathBuf,
    /// How long to wait for the lock.
    pub(super) time_limit: Duration,
}

/// What stands in the file under our key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct State {
    version: String,
    time_stamp: String,
    #[serde(deserialize_with = "or_default")]
    address_spaces: BTreeMap<String, AddressSpace>,
}

impl State {
    /// The one address space there is.
    pub(super) fn local(&mut self) -> &mut AddressSpace {
        let make = || AddressSpace { id: "local".to_owned(), ..AddressSpace::default() };
        self.address_spaces.entry("local".to_owned()).or_insert_with(make)
    }
}

/// The state under its lock, which ends with this value, and with the process at the latest.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    document: Map<String, Value>,
    pub(super) state: State,
    _lock: File,
}

impl Store {
    /// Waits for the lock and reads the state. That there is none yet is the empty one.
    pub(super) fn open(place: &Place) -> Result<Self> {
        let lock = take_lock(place)?;
        let path = place.state.clone();
        let content = file::read(&path, LIMIT).map_err(|error| failure("reading", &path, &error))?.unwrap_or_default();
        let (document, state) = parse(&content).map_err(|error| {
            Error::decoding_failure(format!("the state in {} cannot be read: {error}", path.display()))
                .details("restore the file, or remove it once no container has an address of it")
        })?;
        Ok(Self { path, document, state, _lock: lock })
    }

    /// Writes the state.
    pub(super) fn save(&mut self) -> Result<()> {
        self.state.version = env!("CARGO_PKG_VERSION").to_owned();
        self.state.time_stamp = rfc3339(SystemTime::now());
        let saved = serde_json::to_value(&self.state).map_err(io::Error::from).and_then(|state| {
            self.document.insert(KEY.to_owned(), state);
            file::replace(&self.path, &print(&self.document)?)
        });
        saved.map_err(|error| failure("writing", &self.path, &error))
    }
}

fn parse(content: &[u8]) -> serde_json::Result<(Map<String, Value>, State)> {
    if content.iter().all(u8::is_ascii_whitespace) {
        return Ok(Default::default());
    }
    let document: Map<String, Value> = serde_json::from_slice(content)?;
    let state = document.get(KEY).map(State::deserialize).transpose()?;
    Ok((document, state.unwrap_or_default()))
}

/// With tabs, as the reference prints it.
fn print(document: &Map<String, Value>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"\t")))?;
    Ok(bytes)
}

fn take_lock(place: &Place) -> Result<File> {
    let path = &place.lock;
    let locking = |error: io::Error| failure("locking", path, &error);
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(locking)?;
    }
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(locking)?;
    let deadline = Instant::now() + place.time_limit;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let message = format!("somebody has had the lock {} for {} s", path.display(), place.time_limit.as_secs_f32());
                return Err(Error::try_again_later(message).details("find out what the plugin waits for whose process number stands in it"));
            }
            Err(TryLockError::Error(error)) => return Err(locking(error)),
        }
    }
    // For people who look for the holder, as the reference does it; the lock itself is the system's.
    let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    noted.map(|()| file).map_err(locking)
}

fn failure(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::io_failure(format!("{what} {} failed: {error}", path.display()))
        .details("make room there and let the plugin read and write, or set ipam.stateDir to another directory")
}

/// A time as text, in UTC. The days of the calendar are counted in eras of 400 years that begin in March.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86400 + 719_468, since.as_secs() % 86400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_go_reads_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
