//! The table that a process before us has left, with programs that still forward by it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aya::maps::{Array, HashMap, Map, MapData, MapInfo};
use aya::programs::loaded_programs;

use super::attach::PRIORITIES;
use super::layout::{KernelFlow, KernelKey};

/// The layout of the maps. A table of another is left alone.
const VERSION: u64 = 1;

/// Whose table it is: that of the process which has a socket in a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOwner {
    namespace: u64,
    socket: u64,
}

impl KernelOwner {
    /// Who has this socket in the network namespace of the calling thread.
    pub fn at(socket: &Path) -> Self {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino());
        Self { namespace, socket: BuildHasherDefault::<DefaultHasher>::default().hash_one(socket) }
    }

    /// What stands in the table of this owner, whose programs have a place on their links.
    pub(super) fn words(self, priority: u16) -> [u64; 4] {
        [VERSION, self.namespace, self.socket, u64::from(priority)]
    }
}

/// A table of a process that is gone.
pub struct Previous {
    flows: HashMap<MapData, KernelKey, KernelFlow>,
    generations: Array<MapData, u32>,
    /// The place of its programs on their links.
    pub(super) priority: u16,
}

impl std::fmt::Debug for Previous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Previous").field("priority", &self.priority).finish_non_exhaustive()
    }
}

impl Previous {
    /// Looks for a table of this owner in the kernel.
    pub(super) fn find(owner: KernelOwner) -> Option<Self> {
        let programs = loaded_programs().filter_map(Result::ok).filter(|program| program.name_as_str() == Some("nic"));
        programs.filter_map(|program| program.map_ids().ok().flatten()).find_map(|maps| Self::of(owner, &maps))
    }

    fn of(owner: KernelOwner, maps: &[u32]) -> Option<Self> {
        let is_named = |id: &&u32, name: &str| MapInfo::from_id(**id).is_ok_and(|map| map.name_as_str() == Some(name));
        let map = |name: &str| maps.iter().find(|id| is_named(id, name)).and_then(|id| MapData::from_id(*id).ok());
        let words: Array<MapData, u64> = Map::Array(map("state")?).try_into().ok()?;
        let word = |at: u32| words.get(&(at + 1), 0).unwrap_or(0);
        let priority = u16::try_from(word(3)).ok().filter(|priority| PRIORITIES.contains(priority))?;
        if owner.words(priority) != [word(0), word(1), word(2), word(3)] {
            return None;
        }
        let flows = Map::HashMap(map("flows")?).try_into().ok()?;
        let generations = Map::Array(map("generations")?).try_into().ok()?;
        Some(Self { flows, generations, priority })
    }

    /// All flows that the kernel still forwards by it.
    pub fn flows(&self) -> impl Iterator<Item = (KernelKey, KernelFlow)> {
        let is_current = |flow: &KernelFlow| {
            let count = if flow.flags & super::FLAG_PAST == 0 { 2 } else { 3 };
            (0..count).all(|at| self.generations.get(&flow.ports[at], 0).is_ok_and(|now| now == flow.generations[at]))
        };
        self.flows.iter().filter_map(Result::ok).filter(move |(_, flow)| is_current(flow))
    }
}
