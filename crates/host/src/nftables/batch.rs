//! A batch of changes that the kernel makes all at once or not at all, and the socket that owns what it makes.

use std::io;
use std::os::fd::AsFd;

use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::sys::socket::{setsockopt, sockopt};

use super::attribute::Attributes;
use super::error::NftError;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const ERROR: u16 = 2;
const GET_GENERATION: u16 = 16;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

/// Makes what does not exist (`NLM_F_CREATE`).
pub(super) const CREATE: u16 = 0x400;
/// Refuses what exists already (`NLM_F_EXCL`).
pub(super) const EXCLUSIVE: u16 = 0x200;
/// Adds at the end (`NLM_F_APPEND`).
pub(super) const APPEND: u16 = 0x800;

const HEADER: usize = 16;

/// A batch goes to the kernel as one datagram, and a rule takes about half a kilobyte of it.
const SEND_BUFFER: usize = 16 << 20;

/// The families of tables.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Family {
    Inet = 1,
    Netdev = 5,
}

/// What a message of a batch is about.
#[derive(Clone, Copy, Debug)]
#[repr(u16)]
pub(super) enum Operation {
    NewTable = 0,
    DeleteTable = 2,
    NewChain = 3,
    NewRule = 6,
    DeleteRule = 8,
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

    fn outcome(&self, first: u32, last: u32) -> io::Result<()> {
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Some((kind, sequence, code)) = answer(&mut rest) {
                // Anything older is the rest of a batch that failed.
                let ours = kind == ERROR && sequence.wrapping_sub(first) <= last.wrapping_sub(first);
                if ours && code != 0 {
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                if ours && sequence == last {
                    return Ok(());
                }
            }
        }
    }
}

/// Takes one message off: its kind, its number, and the error code if it is an error.
fn answer(bytes: &mut &[u8]) -> Option<(u16, u32, i32)> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let message = bytes.get(..length)?;
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    let sequence = u32::from_ne_bytes(message.get(8..12)?.try_into().ok()?);
    let code = message.get(HEADER..HEADER + 4).map_or(0, |code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
    Some((kind, sequence, code))
}
