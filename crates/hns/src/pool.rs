//! Numbers given out and taken back: the free parts of a range, as intervals.
//!
//! Taking and giving back cost the logarithm of the number of gaps, however large the range and however full it is.
//! A pool is a value: copies share what they have in common, so that a draft can be dropped.

use imbl::OrdMap;

/// A range of numbers, some of them free.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pool {
    /// First and last number of the whole range.
    whole: Option<(u128, u128)>,
    /// First number of a free interval to its last.
    free: OrdMap<u128, u128>,
    /// Where to look first. Going round instead of starting over keeps a number just given back at rest for a
    /// while, so that neighbours forget its last owner.
    next: u128,
}

impl Pool {
    /// A pool with one free range, both ends included.
    pub(crate) fn new(first: u128, last: u128) -> Self {
        let mut pool = Self { next: first, ..Self::default() };
        if first <= last {
            pool.whole = Some((first, last));
            pool.free.insert(first, last);
        }
        pool
    }

    /// How many numbers are free.
    #[cfg(test)]
    pub(crate) fn free_count(&self) -> u128 {
        self.free.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether the number belongs to the range.
    pub(crate) fn covers(&self, number: u128) -> bool {
        self.whole.is_some_and(|(first, last)| first <= number && number <= last)
    }

    /// Continues the search where another pool would.
    pub(crate) fn continue_after(&mut self, before: &Pool) {
        self.next = before.next;
    }

    /// The free number at or after `from`.
    fn free_from(&self, from: u128) -> Option<u128> {
        let before = self.free.range(..=from).next_back();
        if before.is_some_and(|(_, last)| *last >= from) {
            return Some(from);
        }
        self.free.range(from..).next().map(|(first, _)| *first)
    }

    /// The next number that is free and wanted; nothing is taken.
    pub(crate) fn find(&self, mut wanted: impl FnMut(u128) -> bool) -> Option<u128> {
        let start = self.free_from(self.next).or_else(|| self.free_from(0))?;
        let mut candidate = start;
        loop {
            if wanted(candidate) {
                return Some(candidate);
            }
            let following = candidate.checked_add(1).and_then(|next| self.free_from(next));
            candidate = following.or_else(|| self.free_from(0))?;
            if candidate == start {
                return None;
            }
        }
    }

    /// Takes a number out. False if it was not free.
    pub(crate) fn take(&mut self, number: u128) -> bool {
        let Some((first, last)) = self.free.range(..=number).next_back().map(|(first, last)| (*first, *last)) else {
            return false;
        };
        if last < number {
            return false;
        }
        self.free.remove(&first);
        if first < number {
            self.free.insert(first, number - 1);
        }
        if number < last {
            self.free.insert(number + 1, last);
        }
        true
    }

    /// Takes the next free number.
    #[cfg(test)]
    pub(crate) fn take_next(&mut self) -> Option<u128> {
        let number = self.find(|_| true)?;
        self.take(number);
        self.advance(number);
        Some(number)
    }

    /// Continues the search after this number next time.
    pub(crate) fn advance(&mut self, number: u128) {
        self.next = number.saturating_add(1);
    }

    /// Puts a number back. It must have been taken from this pool.
    pub(crate) fn give_back(&mut self, number: u128) {
        let (mut first, mut last) = (number, number);
        let before = self.free.range(..=number).next_back().map(|(start, end)| (*start, *end));
        if let Some((start, end)) = before {
            if end >= number {
                return;
            }
            if end + 1 == number {
                self.free.remove(&start);
                first = start;
            }
        }
        if let Some(after) = number.checked_add(1)
            && let Some(end) = self.free.remove(&after)
        {
            last = end;
        }
        self.free.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn goes_round_before_it_reuses() {
        let mut pool = Pool::new(10, 12);
        assert_eq!(pool.take_next(), Some(10));
        pool.give_back(10);
        assert_eq!(pool.take_next(), Some(11));
        assert_eq!(pool.take_next(), Some(12));
        assert_eq!(pool.take_next(), Some(10));
        assert_eq!(pool.take_next(), None);
    }

    #[test]
    fn the_largest_number_is_no_special_case() {
        let mut pool = Pool::new(u128::MAX - 1, u128::MAX);
        assert_eq!(pool.take_next(), Some(u128::MAX - 1));
        assert_eq!(pool.take_next(), Some(u128::MAX));
        assert_eq!(pool.take_next(), None);
        pool.give_back(u128::MAX);
        assert_eq!(pool.find(|_| true), Some(u128::MAX));
    }

    proptest! {
        #[test]
        fn never_gives_a_number_twice(steps in proptest::collection::vec((any::<bool>(), 0u128..40), 1..200)) {
            let mut pool = Pool::new(3, 34);
            let mut taken = BTreeSet::new();
            for (give_back, number) in steps {
                if give_back {
                    if taken.remove(&number) {
                        pool.give_back(number);
                    }
                } else if number % 3 == 0 {
                    prop_assert_eq!(pool.take(number), (3..=34).contains(&number) && taken.insert(number));
                } else {
                    match pool.take_next() {
                        Some(number) => prop_assert!(taken.insert(number)),
                        None => prop_assert_eq!(taken.len(), 32),
                    }
                }
                prop_assert_eq!(pool.free_count(), 32 - taken.len() as u128);
            }
        }
    }
}
