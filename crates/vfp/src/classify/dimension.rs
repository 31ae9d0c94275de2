//! One thing that packets differ in, cut into intervals whose values all rules treat alike.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::bits::Bits;

/// For every value of the dimension, the rules that accept it.
#[derive(Debug, Default)]
pub(crate) struct Dimension<T> {
    /// Where each interval starts; the first starts at the least value.
    starts: Vec<T>,
    /// Which set of rules each interval has.
    sets: Vec<u32>,
    /// The sets, each once.
    distinct: Vec<Bits>,
}

/// A value that intervals can be made of.
pub(crate) trait Value: Copy + Ord + std::hash::Hash {
    /// The least one.
    const LEAST: Self;
    /// The one after, if there is one.
    fn next(self) -> Option<Self>;
}

impl Value for u128 {
    const LEAST: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Value for u16 {
    const LEAST: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl<T: Value> Dimension<T> {
    /// Builds it for rules 0 to `rules.len() - 1`; a rule without ranges accepts any value.
    pub(crate) fn build(rules: &[Vec<RangeInclusive<T>>]) -> Self {
        let mut anything = Bits::zero(rules.len());
        let mut cuts: Vec<T> = vec![T::LEAST];
        for (number, ranges) in rules.iter().enumerate() {
            if ranges.is_empty() {
                anything.set(number);
            }
            for range in ranges {
                cuts.push(*range.start());
                cuts.extend(range.end().next());
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut sets: Vec<Bits> = vec![anything; cuts.len()];
        for (number, ranges) in rules.iter().enumerate() {
            for range in ranges {
                let from = cuts.partition_point(|cut| cut < range.start());
                let to = cuts.partition_point(|cut| cut <= range.end()).max(from);
                sets[from..to].iter_mut().for_each(|set| set.set(number));
            }
        }
        Self::share(cuts, sets)
    }

    /// Neighbouring intervals with the same set become one, and equal sets are kept once.
    fn share(cuts: Vec<T>, sets: Vec<Bits>) -> Self {
        let mut shared = Self { starts: Vec::new(), sets: Vec::new(), distinct: Vec::new() };
        let mut numbers: HashMap<Bits, u32> = HashMap::new();
        for (start, set) in cuts.into_iter().zip(sets) {
            let number = *numbers.entry(set).or_insert_with_key(|set| {
                shared.distinct.push(set.clone());
                shared.distinct.len() as u32 - 1
            });
            if shared.sets.last() != Some(&number) {
                shared.starts.push(start);
                shared.sets.push(number);
            }
        }
        shared
    }

    /// The rules that accept a value.
    pub(crate) fn accept(&self, value: T) -> &[u64] {
        let interval = self.starts.partition_point(|start| *start <= value).saturating_sub(1);
        self.sets.get(interval).and_then(|set| self.distinct.get(*set as usize)).map_or(&[], Bits::words)
    }
}
