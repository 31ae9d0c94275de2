//! Conversations of datagrams that the kernel remembers (conntrack), and how to make it forget those that lead to somebody who has gone.
//!
//! Only the first packet of a connection is looked at by rules. Datagrams have no end that the kernel could see: a client that keeps its port keeps
//! its backend until it is silent for a while, whether the backend is there or not.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::attribute::Attributes;
use super::batch::{Connection, attribute};
use super::error::NftError;

/// Messages of the subsystem, by which one reads and deletes.
const SUBSYSTEM: u16 = 1;
const GET: u16 = (SUBSYSTEM << 8) | 1;
const DELETE: u16 = (SUBSYSTEM << 8) | 2;

/// Attributes of an entry, of a tuple, of its addresses and of its ports.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const ID: u16 = 12;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PORTS: u16 = 2;
const V4_SOURCE: u16 = 1;
const V6_SOURCE: u16 = 3;
const PROTOCOL: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// The bit of an entry's status that says that an answer was seen.
const IS_ANSWERED: u32 = 2;

const UDP: u8 = 17;

/// The families, as netfilter counts them.
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// A conversation over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Whom the client asked.
    pub asked: SocketAddr,
    /// Who answers.
    pub answers: SocketAddr,
    /// Whether there was an answer.
    pub is_answered: bool,
}

impl Conversation {
    /// Whether the kernel leads it to somebody else than was asked.
    pub fn is_led(&self) -> bool {
        self.asked != self.answers
    }
}

/// Makes the kernel forget the conversations over UDP of the calling thread's namespace that are over. Returns how many there were.
pub fn forget(is_over: impl Fn(&Conversation) -> bool) -> Result<usize, NftError> {
    let mut connection = Connection::open()?;
    let mut work = || -> io::Result<usize> {
        let mut count = 0;
        for family in FAMILIES {
            for entry in connection.dump(GET, family)? {
                if read(&entry).is_some_and(|conversation| is_over(&conversation)) && delete(&mut connection, family, &entry)? {
                    count += 1;
                }
            }
        }
        Ok(count)
    };
    work().map_err(|error| NftError::from_io("forget conversations over UDP", error))
}

/// Deletes an entry; whether it was still there.
fn delete(connection: &mut Connection, family: u8, entry: &[u8]) -> io::Result<bool> {
    let Some(original) = attribute(entry, ORIGINAL) else { return Ok(false) };
    let mut name = Attributes::new().bytes(ORIGINAL | super::attribute::NESTED, original);
    if let Some(id) = attribute(entry, ID) {
        name = name.bytes(ID, id);
    }
    match connection.change(DELETE, family, &name) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

fn read(entry: &[u8]) -> Option<Conversation> {
    let original = attribute(entry, ORIGINAL)?;
    if attribute(attribute(original, TUPLE_PORTS)?, PROTOCOL)?.first() != Some(&UDP) {
        return None;
    }
    let status = attribute(entry, STATUS).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes));
    Some(Conversation {
        asked: end(original, 1, DESTINATION_PORT)?,
        answers: end(attribute(entry, REPLY)?, 0, SOURCE_PORT)?,
        is_answered: status & IS_ANSWERED != 0,
    })
}

/// One end of a tuple: the source, or the destination, which follows it.
fn end(tuple: &[u8], offset: u16, port: u16) -> Option<SocketAddr> {
    let addresses = attribute(tuple, TUPLE_ADDRESSES)?;
    let v4 = attribute(addresses, V4_SOURCE + offset)
        .and_then(|bytes| bytes.first_chunk::<4>())
        .map(|bytes| IpAddr::from(Ipv4Addr::from(*bytes)));
    let v6 =
        || attribute(addresses, V6_SOURCE + offset).and_then(|bytes| bytes.first_chunk::<16>()).map(|bytes| Ipv6Addr::from(*bytes).into());
    let port = u16::from_be_bytes(*attribute(attribute(tuple, TUPLE_PORTS)?, port)?.first_chunk()?);
    Some(SocketAddr::new(v4.or_else(v6)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(source: (&[u8], u16), destination: (&[u8], u16), protocol: u8) -> Attributes {
        let first = if source.0.len() == 4 { V4_SOURCE } else { V6_SOURCE };
        let addresses = Attributes::new().bytes(first, source.0).bytes(first + 1, destination.0);
        let ports = Attributes::new()
            .bytes(PROTOCOL, &[protocol])
            .bytes(SOURCE_PORT, &source.1.to_be_bytes())
            .bytes(DESTINATION_PORT, &destination.1.to_be_bytes());
        Attributes::new().nested(TUPLE_ADDRESSES, &addresses).nested(TUPLE_PORTS, &ports)
    }

    #[test]
    fn entries_are_read_and_garbage_is_not() {
        let (client, vip, backend) = (&[10, 0, 0, 1], &[10, 96, 0, 1], &[10, 0, 0, 2]);
        let entry = |protocol| {
            Attributes::new()
                .nested(ORIGINAL, &tuple((client, 999), (vip, 53), protocol))
                .nested(REPLY, &tuple((backend, 5353), (client, 999), protocol))
                .number(STATUS, IS_ANSWERED)
        };
        let expected =
            Conversation { asked: "10.96.0.1:53".parse().unwrap(), answers: "10.0.0.2:5353".parse().unwrap(), is_answered: true };
        assert_eq!(read(entry(UDP).as_slice()), Some(expected));
        assert_eq!(read(entry(6).as_slice()), None);
        for length in 0..entry(UDP).len() {
            _ = read(&entry(UDP).as_slice()[..length]);
        }
    }
}
