//! The durable store: every acknowledged change is on disk before anybody hears of it.
//!
//! The whole state lives in memory; what is kept on disk are the records, in a redb file, one transaction (and one
//! fsync) for a batch of changes. redb gives all or nothing, whatever instant the process dies at.

use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use hcn::Guid;
use hcn::api::Kind;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::record::AnyRecord;
use crate::state::State;

const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const MACS_KEY: &str = "management-macs";
const COUNTERS_KEY: &str = "counters";

/// The format this version writes. A file with a higher number is left alone.
const FORMAT: u32 = 1;

/// The file's name inside the state directory.
pub const FILE_NAME: &str = "hns.redb";

/// Pages kept in memory; the state itself is there anyway.
const CACHE_BYTES: usize = 4 << 20;

/// Why the store cannot be opened or written.
#[derive(Debug)]
pub enum JournalError {
    /// The file is damaged or no state file at all.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The file was written by a newer version.
    Newer {
        /// Which file.
        path: PathBuf,
        /// The format it has.
        format: u32,
    },
    /// The operating system refused.
    Io {
        /// What was being done.
        doing: String,
        /// What it said.
        cause: String,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, cause } => write!(
                f,
                "the state file {} cannot be read: {cause}; it was left as it is. Restore it from a backup, or start with \
                 --set-aside-unreadable-state to rename it and begin with an empty state",
                path.display()
            ),
            Self::Newer { path, format } => write!(
                f,
                "the state file {} has format {format}, and this version reads up to {FORMAT}; it was left as it is. Start the \
                 version of transom that wrote it, or choose another --state-dir",
                path.display()
            ),
            Self::Io { doing, cause } => write!(f, "could not {doing}: {cause}"),
        }
    }
}

impl std::error::Error for JournalError {}

type Result<T, E = JournalError> = std::result::Result<T, E>;

/// One change to the store.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(AnyRecord),
    Remove(Kind, Guid),
    ManagementMacs(Vec<String>),
}

/// The store of one service.
pub struct Journal {
    database: Database,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journal")
    }
}

impl Journal {
    /// A store that is gone with the process, for tests and tools.
    pub fn in_memory() -> Result<Self> {
        let backend = redb::backends::InMemoryBackend::new();
        let database = Database::builder().create_with_backend(backend).map_err(io("make a store in memory"))?;
        let journal = Self { database };
        journal.initialize()?;
        Ok(journal)
    }

    /// Opens the store in a directory, or makes one.
    pub fn open(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).map_err(io(format!("make the state directory {}", directory.display())))?;
        let path = directory.join(FILE_NAME);
        if path.exists() {
            let journal = Self { database: open_existing(&path)? };
            refuse_newer_after_repair(&journal, &path)?;
            return Ok(journal);
        }
        let journal = Self { database: open_database(&path)? };
        journal.initialize()?;
        sync_directory(directory)?;
        Ok(journal)
    }

    /// Renames a state file that cannot be read, so that a new one can be begun. Returns where it is now.
    pub fn set_aside(directory: &Path) -> Result<PathBuf> {
        let path = directory.join(FILE_NAME);
        let aside = (1..)
            .map(|number| directory.join(format!("{FILE_NAME}.unreadable-{number}")))
            .find(|candidate| !candidate.exists())
            .unwrap_or_else(|| directory.join("unreadable"));
        fs::rename(&path, &aside).map_err(io(format!("rename {} to {}", path.display(), aside.display())))?;
        sync_directory(directory)?;
        Ok(aside)
    }

    /// Reads the whole state.
    pub(crate) fn load(&self, path: &Path) -> Result<State> {
        let unreadable = |cause: String| JournalError::Unreadable { path: path.to_owned(), cause };
        guarded(|| self.read_state()).map_err(unreadable)
    }

    /// Makes changes durable, all of them or none.
    pub(crate) fn commit(&self, changes: &[Change], state: &State) -> Result<()> {
        let transaction = self.database.begin_write().map_err(io("begin a transaction"))?;
        {
            let mut objects = transaction.open_table(OBJECTS).map_err(io("open the table of objects"))?;
            for change in changes {
                match change {
                    Change::Put(record) => {
                        let key = key(record.kind(), record.id());
                        objects.insert(key.as_slice(), record.to_bytes().as_slice()).map_err(io("write an object")).map(drop)?;
                    }
                    Change::Remove(kind, id) => objects.remove(key(*kind, *id).as_slice()).map_err(io("remove an object")).map(drop)?,
                    Change::ManagementMacs(macs) => write_meta(&transaction, MACS_KEY, macs.join(",").as_bytes())?,
                }
            }
        }
        write_meta(&transaction, COUNTERS_KEY, &counters(state))?;
        transaction.commit().map_err(io("write the state to disk"))
    }

    fn initialize(&self) -> Result<()> {
        let transaction = self.database.begin_write().map_err(io("begin a transaction"))?;
        transaction.open_table(OBJECTS).map_err(io("make the table of objects"))?;
        write_meta(&transaction, FORMAT_KEY, &FORMAT.to_be_bytes())?;
        transaction.commit().map_err(io("write the state to disk"))
    }

    fn read_state(&self) -> Result<State, String> {
        let mut state = State::new();
        let transaction = self.database.begin_read().map_err(text)?;
        let objects = transaction.open_table(OBJECTS).map_err(text)?;
        // Keys begin with the kind, so that networks come before their endpoints.
        for entry in objects.iter().map_err(text)? {
            let (key, value) = entry.map_err(text)?;
            let (kind, id) = parse_key(key.value())?;
            let record = AnyRecord::from_bytes(kind, value.value()).map_err(text)?;
            if record.id() != id {
                return Err(format!("the record of {id} is that of {}", record.id()));
            }
            state.put(record);
        }
        self.read_meta(&transaction, &mut state)?;
        Ok(state)
    }

    fn read_meta(&self, transaction: &redb::ReadTransaction, state: &mut State) -> Result<(), String> {
        let meta = transaction.open_table(META).map_err(text)?;
        if let Some(macs) = meta.get(MACS_KEY).map_err(text)? {
            let macs = String::from_utf8_lossy(macs.value()).into_owned();
            state.management_macs = macs.split(',').filter(|mac| !mac.is_empty()).map(str::to_owned).collect();
        }
        if let Some(counters) = meta.get(COUNTERS_KEY).map_err(text)? {
            let numbers: Vec<u64> = counters.value().chunks_exact(8).filter_map(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes).collect();
            let [sequence, revision, compartment] = numbers[..] else {
                return Err("the counters are damaged".into());
            };
            state.next_sequence = state.next_sequence.max(sequence);
            state.next_revision = state.next_revision.max(revision);
            state.next_compartment = state.next_compartment.max(u32::try_from(compartment).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

fn counters(state: &State) -> Vec<u8> {
    let numbers = [state.next_sequence, state.next_revision, state.next_compartment.into()];
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Opens a state file that exists, and leaves it byte for byte as it was if it cannot be used.
///
/// Opening writes to the file, and after a crash it repairs it, so a file that looks unsound is copied first.
fn open_existing(path: &Path) -> Result<Database> {
    refuse_newer(path)?;
    let copy = path.with_extension("redb.copy");
    fs::copy(path, &copy).map_err(io(format!("copy {} before it is opened", path.display())))?;
    match open_database(path) {
        Ok(database) => {
            fs::remove_file(&copy).map_err(io(format!("remove {}", copy.display())))?;
            Ok(database)
        }
        Err(error) => {
            fs::rename(&copy, path).map_err(io(format!("restore {}", path.display())))?;
            Err(error)
        }
    }
}

/// Looks at the format without writing. After a crash the file must be repaired before anything can be read.
fn refuse_newer(path: &Path) -> Result<()> {
    let unreadable = |cause: String| JournalError::Unreadable { path: path.to_owned(), cause };
    let look = || match Database::builder().set_cache_size(CACHE_BYTES).open_read_only(path) {
        Ok(database) => read_format(&database),
        Err(redb::DatabaseError::RepairAborted) => Ok(FORMAT),
        Err(error) => Err(error.to_string()),
    };
    match guarded(look).map_err(unreadable)? {
        0 => Err(unreadable("it has no format number".into())),
        ..=FORMAT => Ok(()),
        newer => Err(JournalError::Newer { path: path.to_owned(), format: newer }),
    }
}

/// A file that had to be repaired shows its format only now.
fn refuse_newer_after_repair(journal: &Journal, path: &Path) -> Result<()> {
    match guarded(|| read_format(&journal.database)) {
        Ok(1..=FORMAT) => Ok(()),
        Ok(0) => Err(JournalError::Unreadable { path: path.to_owned(), cause: "it has no format number".into() }),
        Ok(newer) => Err(JournalError::Newer { path: path.to_owned(), format: newer }),
        Err(cause) => Err(JournalError::Unreadable { path: path.to_owned(), cause }),
    }
}

fn read_format(database: &impl ReadableDatabase) -> Result<u32, String> {
    let transaction = database.begin_read().map_err(text)?;
    let meta = transaction.open_table(META).map_err(text)?;
    let format = meta.get(FORMAT_KEY).map_err(text)?;
    Ok(format.and_then(|bytes| bytes.value().try_into().ok()).map_or(0, u32::from_be_bytes))
}

fn open_database(path: &Path) -> Result<Database> {
    let unreadable = |cause: String| JournalError::Unreadable { path: path.to_owned(), cause };
    let open = || {
        let mut database = Database::builder().set_cache_size(CACHE_BYTES).create(path)?;
        let sound = database.check_integrity()?;
        Ok((database, sound))
    };
    let opened = catch_unwind(AssertUnwindSafe(open)).map_err(|_| unreadable("it is damaged".into()))?;
    match opened {
        Ok((database, true)) => Ok(database),
        Ok((_, false)) => Err(unreadable("its checksums do not match its contents".into())),
        Err(redb::DatabaseError::Storage(redb::StorageError::Io(error))) if error.kind() != std::io::ErrorKind::InvalidData => {
            Err(JournalError::Io { doing: format!("open {}", path.display()), cause: error.to_string() })
        }
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Reads something from the file; damage may show as an error or as a panic inside the library.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it is damaged".into()))
}

fn write_meta(transaction: &redb::WriteTransaction, key: &str, value: &[u8]) -> Result<()> {
    let mut meta = transaction.open_table(META).map_err(io("open the table of facts"))?;
    meta.insert(key, value).map_err(io("write a fact")).map(drop)
}

fn key(kind: Kind, id: Guid) -> [u8; 17] {
    let mut key = [0; 17];
    key[0] = kind_number(kind);
    key[1..].copy_from_slice(id.as_bytes());
    key
}

fn parse_key(key: &[u8]) -> Result<(Kind, Guid), String> {
    let [number, id @ ..] = key else {
        return Err("an empty key".into());
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind_number(*kind) == *number).ok_or_else(|| format!("an unknown kind {number}"))?;
    let id = id.try_into().map_err(|_| "a key of the wrong length".to_owned())?;
    Ok((kind, Guid::from_bytes(id)))
}

/// The numbers are part of the file's format.
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

fn sync_directory(directory: &Path) -> Result<()> {
    fs::File::open(directory).and_then(|file| file.sync_all()).map_err(io(format!("sync {}", directory.display())))
}

fn io<E: fmt::Display>(doing: impl Into<String>) -> impl FnOnce(E) -> JournalError {
    let doing = doing.into();
    move |error| JournalError::Io { doing, cause: error.to_string() }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
