//! The unified flow table: read without a lock by every worker, written by one at a time.
//!
//! It is a cache: eight entries to a bucket, and where a bucket is full the entry that was idle longest makes room. What must
//! not be forgotten is in the connection table.
//!
//! A slot is a sequence lock over plain words. A reader takes the sequence number, copies, and takes it again; an odd number,
//! or one that has changed, means that somebody is writing, and the reader treats the flow as unknown.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use zerocopy::FromZeros;

use super::connection::ConnectionId;
use super::entry::{self, Entry, WORDS};
use super::key::FlowKey;
use crate::counters::add;
use crate::port::PortId;
use crate::time::Instant;

/// Words of a slot: the entry, its counters, and the sequence number. Four cache lines.
const SLOT: usize = 32;
const PACKETS: usize = WORDS;
const BYTES: usize = WORDS + 1;
const SEEN: usize = WORDS + 2;
const TCP_FLAGS: usize = WORDS + 3;
const SEQUENCE: usize = SLOT - 1;

/// Slots of a bucket.
const WAYS: usize = 8;

/// Cache lines are this many words.
const LINE: usize = 8;

/// The number of a slot.
pub(crate) type SlotId = u32;

/// What the packets of a flow have left in its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) at: Instant,
    pub(crate) tcp_flags: u8,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    words: Box<[AtomicU64]>,
    /// Where the first slot starts, so that slots start with a cache line.
    first: usize,
    /// One byte of hash for each slot of a bucket; 0 is empty.
    tags: Box<[AtomicU64]>,
    mask: u64,
    seed: u64,
}

impl Table {
    /// A table for this many flows, rounded up to a power of two.
    pub(crate) fn new(flows: usize, seed: u64) -> Self {
        let buckets = flows.div_ceil(WAYS).next_power_of_two();
        // Zeroed by the operating system page by page as they are touched, so that a large empty table costs nothing.
        let words = zeroed(buckets * WAYS * SLOT + LINE);
        let first = (LINE - (words.as_ptr() as usize / 8) % LINE) % LINE;
        Self { words, first, tags: zeroed(buckets), mask: buckets as u64 - 1, seed }
    }

    /// Has the operating system bring all its memory now, which otherwise comes as it is used.
    pub(crate) fn populate(&self) {
        const PAGE: usize = 4096 / size_of::<u64>();
        // Writing is what counts, and this writes what is there.
        self.words.iter().step_by(PAGE).for_each(|word| _ = word.fetch_or(0, Ordering::Relaxed));
    }

    #[inline(always)]
    fn slot(&self, id: SlotId) -> &[AtomicU64; SLOT] {
        let from = self.first + id as usize * SLOT;
        // A slot that is not there cannot be asked for: numbers come from `find` and `insert`. Were it, the first one is read.
        self.words[from..].first_chunk().unwrap_or_else(|| self.words[self.first..].first_chunk().expect("a table has slots"))
    }

    /// Finds a flow.
    #[inline(always)]
    pub(crate) fn find(&self, key: &FlowKey) -> Option<(SlotId, Entry)> {
        let hash = key.hash(self.seed);
        let bucket = hash & self.mask;
        let tags = self.tags[bucket as usize].load(Ordering::Acquire);
        let mut candidates = matching(tags, tag(hash));
        while candidates != 0 {
            let way = u64::from(candidates.trailing_zeros() / 8);
            candidates &= candidates - 1;
            let id = (bucket * WAYS as u64 + way) as SlotId;
            if let Some(entry) = self.read(id, key) {
                return Some((id, entry));
            }
        }
        None
    }

    /// Reads a slot if it holds this key.
    #[inline(always)]
    fn read(&self, id: SlotId, key: &FlowKey) -> Option<Entry> {
        let slot = self.slot(id);
        let before = slot[SEQUENCE].load(Ordering::Acquire);
        if before & 1 != 0 {
            return None;
        }
        let mut words = [0; WORDS];
        for (at, word) in key.0.iter().enumerate() {
            words[at] = slot[at].load(Ordering::Relaxed);
            if words[at] != *word {
                return None;
            }
        }
        for at in 8..WORDS {
            words[at] = slot[at].load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        (slot[SEQUENCE].load(Ordering::Relaxed) == before).then(|| Entry::from_words(&words))
    }

    /// Notes a packet of a flow. Called by the worker that owns the port the flow comes from, and by no other.
    #[inline(always)]
    pub(crate) fn note(&self, id: SlotId, now: Instant, bytes: usize, tcp_flags: u8) {
        let slot = self.slot(id);
        add(&slot[PACKETS], 1);
        add(&slot[BYTES], bytes as u64);
        slot[SEEN].store(now.0, Ordering::Relaxed);
        let flags = slot[TCP_FLAGS].load(Ordering::Relaxed);
        let more = flags | u64::from(tcp_flags);
        if more != flags {
            slot[TCP_FLAGS].store(more, Ordering::Relaxed);
        }
    }

    /// What the packets of a flow have left. Wrong, but harmless, while the slot is being written.
    pub(crate) fn seen(&self, id: SlotId) -> Seen {
        let slot = self.slot(id);
        let load = |at: usize| slot[at].load(Ordering::Relaxed);
        Seen { packets: load(PACKETS), bytes: load(BYTES), at: Instant(load(SEEN)), tcp_flags: load(TCP_FLAGS) as u8 }
    }

    /// The port that the packets of a slot go to. For the one writer.
    pub(crate) fn to(&self, id: SlotId) -> PortId {
        entry::to_of(self.slot(id)[entry::TO].load(Ordering::Relaxed))
    }

    /// The connection that a slot belongs to. For the one writer.
    pub(crate) fn owner(&self, id: SlotId) -> ConnectionId {
        entry::owner_of(self.slot(id)[entry::OWNER].load(Ordering::Relaxed))
    }

    /// What a slot holds. For the one writer.
    pub(crate) fn get(&self, id: SlotId) -> Entry {
        let slot = self.slot(id);
        Entry::from_words(&std::array::from_fn(|at| slot[at].load(Ordering::Relaxed)))
    }

    /// Where a flow would be written: the slot that has its key, else an empty one, else the one that was idle longest.
    /// The second answer is whether somebody else's flow is there.
    pub(crate) fn place(&self, key: &FlowKey) -> (SlotId, bool) {
        let hash = key.hash(self.seed);
        let bucket = hash & self.mask;
        let id = |way: usize| (bucket * WAYS as u64) as SlotId + way as SlotId;
        let tags = self.tags[bucket as usize].load(Ordering::Relaxed).to_le_bytes();
        let holds = |way: &usize| tags[*way] == tag(hash) && self.get(id(*way)).key == *key;
        if let Some(way) = (0..WAYS).find(holds) {
            return (id(way), false);
        }
        if let Some(way) = tags.iter().position(|tag| *tag == 0) {
            return (id(way), false);
        }
        let idle = (0..WAYS).min_by_key(|way| self.seen(id(*way)).at).unwrap_or(0);
        (id(idle), true)
    }

    /// Writes a flow. Only one thread may write at a time: the caller holds the lock of the slow path.
    pub(crate) fn write(&self, id: SlotId, entry: &Entry, now: Instant) {
        self.change(id, |slot| {
            for (word, value) in slot.iter().zip(entry.to_words()) {
                word.store(value, Ordering::Relaxed);
            }
            for at in [PACKETS, BYTES, TCP_FLAGS] {
                slot[at].store(0, Ordering::Relaxed);
            }
            slot[SEEN].store(now.0, Ordering::Relaxed);
        });
        self.set_tag(id, tag(entry.key.hash(self.seed)));
    }

    /// Says whether the flow of a slot is forwarded elsewhere too. Only one thread may write at a time.
    pub(crate) fn set_offloaded(&self, id: SlotId, offloaded: bool) {
        self.change(id, |slot| {
            let word = slot[entry::TO].load(Ordering::Relaxed);
            slot[entry::TO].store(entry::with_offloaded(word, offloaded), Ordering::Relaxed);
        });
    }

    /// Empties a slot. Only one thread may write at a time.
    pub(crate) fn erase(&self, id: SlotId) {
        self.set_tag(id, 0);
        self.change(id, |slot| slot[..WORDS].iter().for_each(|word| word.store(0, Ordering::Relaxed)));
    }

    fn change(&self, id: SlotId, write: impl FnOnce(&[AtomicU64; SLOT])) {
        let slot = self.slot(id);
        let sequence = slot[SEQUENCE].load(Ordering::Relaxed);
        slot[SEQUENCE].store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        write(slot);
        slot[SEQUENCE].store(sequence.wrapping_add(2), Ordering::Release);
    }

    fn set_tag(&self, id: SlotId, tag: u8) {
        let (bucket, way) = (id as usize / WAYS, id as usize % WAYS);
        let mut tags = self.tags[bucket].load(Ordering::Relaxed).to_le_bytes();
        tags[way] = tag;
        self.tags[bucket].store(u64::from_le_bytes(tags), Ordering::Release);
    }
}

fn zeroed(words: usize) -> Box<[AtomicU64]> {
    <[AtomicU64]>::new_box_zeroed_with_elems(words).expect("memory for the flow table")
}

/// The byte of a hash that marks its slot; never 0.
#[inline]
const fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8 | 1
}

/// The bytes of `tags` that equal `tag`, each marked by its highest bit. May mark too many, never too few.
#[inline]
const fn matching(tags: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let difference = tags ^ (LOW * tag as u64);
    difference.wrapping_sub(LOW) & !difference & (LOW << 7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PortId;

    fn entry(number: u64) -> Entry {
        Entry { key: FlowKey([number, 2, 3, 4, 5, 6, 7, 8]), to: PortId(number as u32), ..Entry::default() }
    }

    fn insert(table: &Table, number: u64, now: u64) -> (SlotId, bool) {
        let (id, displaced) = table.place(&entry(number).key);
        table.write(id, &entry(number), Instant(now));
        (id, displaced)
    }

    #[test]
    fn what_is_written_is_found_and_what_is_erased_is_not() {
        let table = Table::new(1024, 7);
        for number in 1..=100 {
            insert(&table, number, number);
        }
        for number in 1..=100 {
            let (id, found) = table.find(&entry(number).key).expect("it is there");
            assert_eq!(found, entry(number));
            table.note(id, Instant(500), 60, 0x12);
            assert_eq!(table.seen(id), Seen { packets: 1, bytes: 60, at: Instant(500), tcp_flags: 0x12 });
            table.erase(id);
            assert_eq!(table.find(&entry(number).key), None);
        }
    }

    #[test]
    fn a_full_bucket_gives_up_what_was_idle_longest() {
        let table = Table::new(8, 7);
        for number in 1..=8 {
            assert!(!insert(&table, number, 100 + number).1);
        }
        let (id, _) = table.find(&entry(1).key).expect("it is there");
        table.note(id, Instant(999), 1, 0);
        assert!(insert(&table, 9, 1000).1);
        assert!(table.find(&entry(1).key).is_some(), "it was used just now");
        assert!(table.find(&entry(2).key).is_none(), "it was idle longest");
    }

    #[test]
    fn readers_never_see_half_an_entry() {
        let table = Table::new(8, 7);
        let whole = |fill: u64| Entry { connection: fill as u32, mtu: fill as u16, to: PortId(fill as u32), ..entry(1) };
        std::thread::scope(|scope| {
            let (table, whole) = (&table, &whole);
            scope.spawn(move || {
                for round in 0..100_000u64 {
                    let (id, _) = table.place(&entry(1).key);
                    table.write(id, &whole(round % 60_000), Instant(round));
                }
            });
            for _ in 0..200_000 {
                if let Some((_, found)) = table.find(&entry(1).key) {
                    assert_eq!(found, whole(u64::from(found.connection)));
                }
            }
        });
    }
}
