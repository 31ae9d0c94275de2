//! Packet captures in the pcapng format, for Wireshark and its relatives to read.
//!
//! A capture is a section, then the interfaces in the order of their numbers, then packets. Each is one block, appended to
//! a buffer that the caller writes wherever captures go. Times are nanoseconds since 1970, and comments say what happened
//! to the packet, so that a verdict is seen beside the bytes it is about.

use std::iter::from_fn;

/// Which way a packet went, as seen from the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came in.
    Inbound,
    /// It went out.
    Outbound,
}

/// A packet on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The number of the interface: 0 for the first that was written.
    pub interface: u32,
    /// When.
    pub time_ns: u64,
    /// Which way, if that is known.
    pub direction: Option<Direction>,
    /// What to say about it; may be empty.
    pub comment: &'a str,
    /// The bytes that were kept.
    pub bytes: &'a [u8],
    /// How many there were.
    pub original_length: u32,
}

/// A block as [`blocks`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// A capture begins.
    Section {
        /// What wrote it.
        application: &'a str,
    },
    /// An interface, which gets the next number.
    Interface {
        /// What it is called.
        name: &'a str,
    },
    /// A packet.
    Packet(Packet<'a>),
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const PACKET_FLAGS: u16 = 2;
    pub(super) const APPLICATION: u16 = 4;
    pub(super) const TIME_RESOLUTION: u16 = 9;
}

/// Appends the start of a capture.
pub fn section(out: &mut Vec<u8>) {
    block(out, SECTION, |out| {
        out.extend(BYTE_ORDER.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        // The length of the section is not known beforehand, which is written so.
        out.extend(u64::MAX.to_le_bytes());
        put(out, option::APPLICATION, b"transom");
        put(out, option::END, &[]);
    });
}

/// Appends an Ethernet interface.
pub fn interface(out: &mut Vec<u8>, name: &str) {
    const NANOSECONDS: u8 = 9;
    block(out, INTERFACE, |out| {
        out.extend(ETHERNET.to_le_bytes());
        out.extend([0; 2]);
        // A snapshot length of zero is none.
        out.extend([0; 4]);
        put(out, option::INTERFACE_NAME, cut(name).as_bytes());
        put(out, option::TIME_RESOLUTION, &[NANOSECONDS]);
        put(out, option::END, &[]);
    });
}

/// Appends a packet.
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    block(out, PACKET, |out| {
        out.extend(packet.interface.to_le_bytes());
        out.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
        out.extend((packet.time_ns as u32).to_le_bytes());
        out.extend((packet.bytes.len() as u32).to_le_bytes());
        out.extend(packet.original_length.to_le_bytes());
        out.extend(packet.bytes);
        align(out, packet.bytes.len());
        if !packet.comment.is_empty() {
            put(out, option::COMMENT, cut(packet.comment).as_bytes());
        }
        if let Some(direction) = packet.direction {
            let flags: u32 = if direction == Direction::Inbound { 1 } else { 2 };
            put(out, option::PACKET_FLAGS, &flags.to_le_bytes());
        }
        put(out, option::END, &[]);
    });
}

/// Appends a block: its type, its length, the body, and the length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend(length.to_le_bytes());
}

fn put(out: &mut Vec<u8>, option: u16, value: &[u8]) {
    out.extend(option.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    align(out, value.len());
}

/// Fills up to four bytes what is `length` bytes long.
fn align(out: &mut Vec<u8>, length: usize) {
    out.extend(&[0; 3][..length.next_multiple_of(4) - length]);
}

/// As much of a text as an option holds.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(usize::from(u16::MAX))]
}

/// Reads a capture that was written here, up to the first block that cannot be read. Blocks of other kinds are left out.
pub fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = Block<'_>> {
    from_fn(move || {
        loop {
            let length = long(bytes, 4)? as usize;
            let (block, rest) = bytes.split_at_checked(length).filter(|_| length >= 12 && length.is_multiple_of(4))?;
            let body = &block[8..length - 4];
            bytes = rest;
            match long(block, 0)? {
                SECTION => return Some(Block::Section { application: find_text(body.get(16..)?, option::APPLICATION) }),
                INTERFACE => return Some(Block::Interface { name: find_text(body.get(8..)?, option::INTERFACE_NAME) }),
                PACKET => return read_packet(body).map(Block::Packet),
                _ => {}
            }
        }
    })
}

fn read_packet(body: &[u8]) -> Option<Packet<'_>> {
    let length = long(body, 12)? as usize;
    let (bytes, rest) = body.get(20..)?.split_at_checked(length)?;
    let options = rest.get(length.next_multiple_of(4) - length..)?;
    let direction = match find(options, option::PACKET_FLAGS).and_then(|flags| long(flags, 0)).map(|flags| flags & 3) {
        Some(1) => Some(Direction::Inbound),
        Some(2) => Some(Direction::Outbound),
        _ => None,
    };
    Some(Packet {
        interface: long(body, 0)?,
        time_ns: u64::from(long(body, 4)?) << 32 | u64::from(long(body, 8)?),
        direction,
        comment: find_text(options, option::COMMENT),
        bytes,
        original_length: long(body, 16)?,
    })
}

fn find_text(options: &[u8], wanted: u16) -> &str {
    find(options, wanted).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
}

fn find(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let ([a, b, c, d], rest) = options.split_first_chunk::<4>()?;
        let (option, length) = (u16::from_le_bytes([*a, *b]), usize::from(u16::from_le_bytes([*c, *d])));
        let value = rest.get(..length).filter(|_| option != option::END)?;
        if option == wanted {
            return Some(value);
        }
        options = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().copied().map(u32::from_le_bytes)
}
