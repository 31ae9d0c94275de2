//! Sets and maps: what rules look up, however much it is, in about the same time.

use std::net::{IpAddr, SocketAddr};

use super::attribute::Attributes;
use super::batch::{Batch, CREATE, Operation};
use super::expression::{AddressFamily, Verdict, octets};

const MAP: u32 = 0x08;
const TIMEOUT: u32 = 0x10;
const DYNAMIC: u32 = 0x20;

/// What maps to verdicts have as the type of their data.
const VERDICTS: u32 = 0xffff_ff00;

/// Elements go to the kernel in attributes, which have a length of sixteen bits.
const ELEMENTS_LENGTH: usize = 48 << 10;

/// The longest comment that `nft` shows.
const COMMENT_LENGTH: usize = 127;

/// A part of a key, and of what a map has for it. The numbers are those by which `nft` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Address(AddressFamily),
    Protocol,
    TransportPort,
    /// A number of our own.
    Number,
}

impl Part {
    fn kind(self) -> u32 {
        match self {
            Self::Address(AddressFamily::V4) => 7,
            Self::Address(AddressFamily::V6) => 8,
            Self::Protocol => 12,
            Self::TransportPort => 13,
            Self::Number => 19,
        }
    }

    /// Parts begin at multiples of four bytes.
    fn length(self) -> usize {
        match self {
            Self::Address(family) => family.length(),
            Self::Protocol | Self::TransportPort | Self::Number => 4,
        }
    }
}

/// The number of a sequence of parts: six bits for each.
fn kind(parts: &[Part]) -> u32 {
    parts.iter().fold(0, |kind, part| (kind << 6) | part.kind())
}

fn length(parts: &[Part]) -> u32 {
    u32::try_from(parts.iter().map(|part| part.length()).sum::<usize>()).expect("the kernel takes keys of up to 64 bytes")
}

/// What a set has besides its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// Nothing: a key is in it or not.
    Keys,
    /// A verdict for each.
    Verdicts,
    /// Values of these parts.
    Values(&'a [Part]),
    /// Values that rules put there for a time.
    Remembered(&'a [Part]),
}

/// A set or map of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set<'a> {
    pub(super) name: &'a str,
    pub(super) key: &'a [Part],
    pub(super) content: Content<'a>,
    /// How many elements it may have. The kernel makes room for them at once where rules do not change it, which is faster than growing.
    pub(super) most: u32,
}

impl Set<'_> {
    /// Adds it to a batch, in which its number is another than that of all others.
    pub(super) fn create(&self, batch: &mut Batch, table: &str, number: u32) {
        let named = Attributes::new().text(1, table).text(2, self.name);
        let keyed = |flags: u32| named.clone().number(3, flags).number(4, kind(self.key)).number(5, length(self.key)).number(10, number);
        let valued = |flags: u32, parts: &[Part]| keyed(flags).number(6, kind(parts)).number(7, length(parts));
        let attributes = match self.content {
            Content::Keys => keyed(0),
            Content::Verdicts => keyed(MAP).number(6, VERDICTS),
            Content::Values(parts) => valued(MAP, parts),
            Content::Remembered(parts) => valued(MAP | TIMEOUT | DYNAMIC, parts),
        };
        let attributes = attributes.nested(9, &Attributes::new().number(1, self.most));
        batch.add(Operation::NewSet, CREATE, attributes);
    }
}

/// The elements of a set, for people with a comment each.
#[derive(Debug, Default)]
pub(super) struct Elements {
    parts: Vec<Attributes>,
    current: Attributes,
}

impl Elements {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn key(&mut self, key: &[u8]) {
        self.put(Attributes::new().nested(1, &value(key)));
    }

    pub(super) fn value(&mut self, key: &[u8], data: &[u8]) {
        self.put(Attributes::new().nested(1, &value(key)).nested(2, &value(data)));
    }

    pub(super) fn verdict(&mut self, key: &[u8], verdict: &Verdict, comment: &str) {
        self.put(Attributes::new().nested(1, &value(key)).nested(2, &verdict.data()).bytes(6, &userdata(comment)));
    }

    fn put(&mut self, element: Attributes) {
        if self.current.len() + element.len() > ELEMENTS_LENGTH {
            self.parts.push(std::mem::take(&mut self.current));
        }
        self.current = std::mem::take(&mut self.current).nested(1, &element);
    }

    /// Adds them to a batch.
    pub(super) fn add(self, batch: &mut Batch, table: &str, set: &str) {
        let is_empty = |part: &Attributes| part.len() == 0;
        for part in self.parts.into_iter().chain([self.current]).filter(|part| !is_empty(part)) {
            batch.add(Operation::NewElements, CREATE, Attributes::new().text(1, table).text(2, set).nested(3, &part));
        }
    }
}

fn value(bytes: &[u8]) -> Attributes {
    Attributes::new().bytes(1, bytes)
}

/// A comment as `nft` keeps it: kind, length and text with a final zero.
pub(super) fn userdata(comment: &str) -> Vec<u8> {
    let mut end = comment.len().min(COMMENT_LENGTH);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    let length = u8::try_from(end + 1).expect("a comment is shorter than 128 bytes");
    [&[0, length], &comment.as_bytes()[..end], &[0]].concat()
}

/// A number as registers have it.
pub(super) fn number(value: u32) -> [u8; 4] {
    value.to_ne_bytes()
}

/// A transport protocol as registers have it.
pub(super) fn protocol(value: u8) -> [u8; 4] {
    [value, 0, 0, 0]
}

/// A transport port as registers have it.
pub(super) fn transport_port(value: u16) -> [u8; 4] {
    let [high, low] = value.to_be_bytes();
    [high, low, 0, 0]
}

/// An address and a transport port as registers have them.
pub(super) fn socket(address: SocketAddr) -> Vec<u8> {
    [octets(address.ip()), transport_port(address.port()).to_vec()].concat()
}

/// A frontend as registers have it.
pub(super) fn frontend(address: IpAddr, of: u8, port: u16) -> Vec<u8> {
    [octets(address), protocol(of).to_vec(), transport_port(port).to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_numbers_of_nft() {
        let v4 = Part::Address(AddressFamily::V4);
        assert_eq!(kind(&[v4, Part::TransportPort]), 461);
        assert_eq!(length(&[v4, Part::Protocol, Part::TransportPort]), 12);
        assert_eq!(length(&[Part::Number, Part::Address(AddressFamily::V6), Part::TransportPort]), 24);
        assert_eq!(frontend("10.0.0.1".parse().unwrap(), 6, 80), [10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0]);
    }

    #[test]
    fn comments_end_within_a_letter_of_their_limit() {
        assert_eq!(userdata("ab"), [0, 3, b'a', b'b', 0]);
        assert_eq!(userdata(&"é".repeat(100)).len(), 2 + 126 + 1);
    }

    #[test]
    fn many_elements_are_several_messages() {
        let mut elements = Elements::new();
        (0..10_000).for_each(|each| elements.value(&number(each), &number(each)));
        assert!(elements.parts.len() > 1 && elements.parts.iter().all(|part| part.len() <= ELEMENTS_LENGTH + 64));
    }
}
