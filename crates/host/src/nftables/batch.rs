//! A batch of changes that the kernel makes all at once or not at all, and the socket that owns what it makes.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::sys::socket::{setsockopt, sockopt};

use super::attribute::{Attributes, NESTED};
use super::error::NftError;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const GET_CHAIN: u16 = 4;
const GET_GENERATION: u16 = 16;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;

/// Makes what does not exist (`NLM_F_CREATE`).
pub(super) const CREATE: u16 = 0x400;
/// Refuses what exists already (`NLM_F_EXCL`).
pub(super) const EXCLUSIVE: u16 = 0x200;
/// Adds at the end (`NLM_F_APPEND`).
pub(super) const APPEND: u16 = 0x800;

const HEADER: usize = 16;

/// A batch goes to the kernel as one datagram, and a rule takes about half a kilobyte of it. Ten thousand Services take about ten MiB.
const SEND_BUFFER: usize = 64 << 20;

/// The families of tables.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Family {
    Inet = 1,
    Ipv4 = 2,
    Netdev = 5,
    Ipv6 = 10,
}

/// What a message of a batch is about.
#[derive(Clone, Copy, Debug)]
#[repr(u16)]
pub(super) enum Operation {
    NewTable = 0,
    DeleteTable = 2,
    NewChain = 3,
    DeleteChain = 5,
    NewRule = 6,
    DeleteRule = 8,
    NewSet = 9,
    DeleteSet = 11,
    NewElements = 12,
}

/// Changes that are to happen together.
#[derive(Debug)]
pub(super) struct Batch {
    family: Family,
    messages: Vec<(u16, u16, Attributes)>,
}

impl Batch {
    pub(super) fn new(family: Family) -> Self {
        Self { family, messages: Vec::new() }
    }

    pub(super) fn add(&mut self, operation: Operation, flags: u16, attributes: Attributes) {
        self.messages.push(((SUBSYSTEM << 8) | operation as u16, flags, attributes));
    }

    /// The whole batch as one datagram; its messages are numbered from `first` on, and the last but one is to be acknowledged.
    fn bytes(&self, first: u32) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        put(&mut bytes, BATCH_BEGIN, REQUEST, first, &generic(0, SUBSYSTEM));
        let mut sequence = first;
        for (position, (kind, flags, attributes)) in self.messages.iter().enumerate() {
            sequence = sequence.wrapping_add(1);
            // One answer says it all: errors come anyway, and before it. Thousands of answers would overflow our buffer.
            let answer = if position + 1 == self.messages.len() { ACKNOWLEDGE } else { 0 };
            let content = [&generic(self.family as u8, 0), attributes.as_slice()].concat();
            put(&mut bytes, *kind, REQUEST | flags | answer, sequence, &content);
        }
        put(&mut bytes, BATCH_END, REQUEST, sequence.wrapping_add(1), &generic(0, SUBSYSTEM));
        (bytes, sequence)
    }
}

/// The header that all messages of netfilter have: family, version, and a number in network order.
fn generic(family: u8, number: u16) -> [u8; 4] {
    let [high, low] = number.to_be_bytes();
    [family, 0, high, low]
}

fn put(bytes: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, content: &[u8]) {
    let length = u32::try_from(HEADER + content.len()).expect("a message is shorter than 4 GiB");
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A connection to nf_tables of the namespace it was opened in. Tables that it owns vanish when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    sequence: u32,
}

impl Connection {
    pub(super) fn open() -> Result<Self, NftError> {
        let open = || -> io::Result<Self> {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            // Root may have as much as it likes, others what the system allows; a batch that is too long says so.
            let granted = setsockopt(&socket.as_fd(), sockopt::SndBufForce, &SEND_BUFFER);
            _ = granted.or_else(|_| setsockopt(&socket.as_fd(), sockopt::SndBuf, &SEND_BUFFER));
            Ok(Self { socket, sequence: 1 })
        };
        open().map_err(|error| NftError::from_io("open a socket for nf_tables", error))
    }

    /// Sends a batch and waits until the kernel has made the changes, or refused all of them.
    pub(super) fn commit(&mut self, batch: &Batch, operation: &str) -> Result<(), NftError> {
        let first = self.sequence;
        let (bytes, last) = batch.bytes(first);
        self.sequence = last.wrapping_add(2);
        self.socket.send(&bytes, 0).and_then(|_| self.outcome(first, last)).map_err(|error| NftError::from_io(operation, error))
    }

    /// Whether the caller may ask nf_tables for anything at all, which it does not answer to the unprivileged.
    pub(super) fn is_permitted(&mut self) -> bool {
        let number = self.sequence;
        self.sequence = number.wrapping_add(1);
        let mut bytes = Vec::new();
        put(&mut bytes, (SUBSYSTEM << 8) | GET_GENERATION, REQUEST | ACKNOWLEDGE, number, &generic(0, 0));
        self.socket.send(&bytes, 0).and_then(|_| self.outcome(number, number)).is_ok()
    }

    /// The names of the chains of a table; none if there is no such table.
    pub(super) fn chains(&mut self, family: Family, table: &str) -> Result<BTreeSet<String>, NftError> {
        let number = self.sequence;
        self.sequence = number.wrapping_add(1);
        let mut bytes = Vec::new();
        put(&mut bytes, (SUBSYSTEM << 8) | GET_CHAIN, REQUEST | DUMP, number, &generic(family as u8, 0));
        let read = || -> io::Result<BTreeSet<String>> {
            self.socket.send(&bytes, 0)?;
            self.listed(number, table)
        };
        read().map_err(|error| NftError::from_io(&format!("list the chains of the nf_tables table {table}"), error))
    }

    /// Everything of a kind that another part of netfilter has, each without its headers.
    pub(super) fn dump(&mut self, kind: u16, family: u8) -> io::Result<Vec<Vec<u8>>> {
        let number = self.sequence;
        self.sequence = number.wrapping_add(1);
        let mut bytes = Vec::new();
        put(&mut bytes, kind, REQUEST | DUMP, number, &generic(family, 0));
        self.socket.send(&bytes, 0)?;
        let mut found = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Some(message) = Message::take(&mut rest) {
                match message.kind {
                    _ if message.sequence != number => {}
                    DONE => return Ok(found),
                    ERROR => return Err(io::Error::from_raw_os_error(message.code().saturating_neg())),
                    _ => found.extend(message.content.get(4..).map(<[u8]>::to_vec)),
                }
            }
        }
    }

    /// Asks another part of netfilter for one change, and waits until it is made.
    pub(super) fn change(&mut self, kind: u16, family: u8, attributes: &Attributes) -> io::Result<()> {
        let number = self.sequence;
        self.sequence = number.wrapping_add(1);
        let mut bytes = Vec::new();
        let content = [&generic(family, 0), attributes.as_slice()].concat();
        put(&mut bytes, kind, REQUEST | ACKNOWLEDGE, number, &content);
        self.socket.send(&bytes, 0)?;
        self.outcome(number, number)
    }

    fn listed(&self, number: u32, table: &str) -> io::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Some(message) = Message::take(&mut rest) {
                match message.kind {
                    _ if message.sequence != number => {}
                    DONE => return Ok(found),
                    ERROR => return Err(io::Error::from_raw_os_error(message.code().saturating_neg())),
                    // Behind the header of netfilter: the table is the first attribute of a chain, its name the third.
                    _ => {
                        let text = |kind| attribute(message.content.get(4..)?, kind).and_then(text_of);
                        found.extend(text(3).filter(|_| text(1) == Some(table)).map(str::to_owned));
                    }
                }
            }
        }
    }

    fn outcome(&self, first: u32, last: u32) -> io::Result<()> {
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Some(message) = Message::take(&mut rest) {
                // Anything older is the rest of a batch that failed.
                let ours = message.kind == ERROR && message.sequence.wrapping_sub(first) <= last.wrapping_sub(first);
                if ours && message.code() != 0 {
                    return Err(io::Error::from_raw_os_error(message.code().saturating_neg()));
                }
                if ours && message.sequence == last {
                    return Ok(());
                }
            }
        }
    }
}

/// What the kernel says.
struct Message<'a> {
    kind: u16,
    sequence: u32,
    content: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes one off.
    fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let message = bytes.get(..length)?;
        *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
        let sequence = u32::from_ne_bytes(message.get(8..12)?.try_into().ok()?);
        Some(Self { kind, sequence, content: message.get(HEADER..)? })
    }

    /// The error code, if it is an error; zero is none.
    fn code(&self) -> i32 {
        self.content.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code))
    }
}

/// The content of the first attribute of a kind.
pub(super) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        if kind & !NESTED == wanted {
            return bytes.get(4..length);
        }
        bytes = bytes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// A text without the zero at its end.
fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().map(|text| text.trim_end_matches('\0'))
}
