//! Rules by a service's address, protocol and port.
//!
//! A node has tens of thousands of them, and a new connection asks for one that nobody has asked for in a while. What is looked for and what
//! is found there lie in one line of memory, so that it comes at once.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use wire::Ip;

use super::Bucket;

/// Address, protocol and port.
pub(super) type Key = (Ip, u8, u16);

/// What is asked for, and the rules that ask for it.
#[derive(Debug)]
#[repr(align(64))]
struct Line {
    address: [u64; 2],
    protocol: u8,
    port: u16,
    bucket: Bucket,
}

// More would be two lines.
const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    fn new((address, protocol, port): Key) -> Self {
        Self { address: halves(address), protocol, port, bucket: Bucket::new() }
    }

    fn key(&self) -> Words {
        (self.address, self.protocol, self.port)
    }
}

/// A key without a number of 16 bytes, which would have to lie at a multiple of them.
type Words = ([u64; 2], u8, u16);

fn words((address, protocol, port): Key) -> Words {
    (halves(address), protocol, port)
}

fn halves(address: Ip) -> [u64; 2] {
    [(address.0 >> 64) as u64, address.0 as u64]
}

/// Rules by what they ask for.
#[derive(Debug, Default)]
pub(super) struct Services {
    table: HashTable<Line>,
    state: RandomState,
}

impl Services {
    /// The rules that ask for this.
    pub(super) fn get(&self, key: Key) -> Option<&Bucket> {
        let words = words(key);
        self.table.find(self.state.hash_one(words), |line| line.key() == words).map(|line| &line.bucket)
    }

    /// The same, to be changed; made if it is not there.
    pub(super) fn bucket(&mut self, key: Key) -> &mut Bucket {
        let (words, state) = (words(key), &self.state);
        let entry = self.table.entry(state.hash_one(words), |line| line.key() == words, |line| state.hash_one(line.key()));
        &mut entry.or_insert_with(|| Line::new(key)).into_mut().bucket
    }

    /// Whether nobody asks for anything.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Forgets what nobody asks for any more.
    pub(super) fn drop_empty(&mut self, key: Key) {
        let words = words(key);
        let found = self.table.find_entry(self.state.hash_one(words), |line| line.key() == words);
        if let Ok(entry) = found
            && entry.get().bucket.is_empty()
        {
            entry.remove();
        }
    }
}
