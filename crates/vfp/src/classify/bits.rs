//! A set of rule numbers.

/// Bits, 64 to a word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn zero(length: usize) -> Self {
        Self(vec![0; length.div_ceil(64)])
    }

    pub(crate) fn set(&mut self, bit: usize) {
        if let Some(word) = self.0.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }
}
