//! Netlink attributes, written into a buffer one after another.

/// Marks an attribute that contains attributes.
pub(super) const NESTED: u16 = 0x8000;

/// A sequence of attributes. Numbers are big-endian, as nf_tables wants them.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        self.put(kind, value);
        self
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(super) fn long(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// A text, which the kernel wants to end in a zero.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn nested(self, kind: u16, value: &Self) -> Self {
        self.bytes(kind | NESTED, &value.bytes)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        // Nothing that is written here comes near 64 KiB: names and expressions are short, and rules are messages of their own.
        let length = u16::try_from(4 + value.len()).expect("an attribute is shorter than 64 KiB");
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_and_nested() {
        let inner = Attributes::new().text(1, "ab");
        let outer = Attributes::new().nested(2, &inner).number(3, 7);
        let kind = |number: u16| number.to_ne_bytes();
        let expected = [&kind(12)[..], &kind(0x8002), &kind(7), &kind(1), b"ab\0\0", &kind(8), &kind(3), &[0, 0, 0, 7]].concat();
        assert_eq!(outer.as_slice(), expected);
    }
}
