//! Links, addresses, routes, rules and neighbours of one network namespace, over rtnetlink.
//!
//! Each operation is one request and its answer; nothing is remembered between them. The socket belongs to the namespace of the
//! thread that opened it, for good, so that one process can hold a [`Netlink`] for each namespace it cares for.

mod address;
mod error;
mod filter;
mod forwarding;
mod link;
mod monitor;
mod neighbour;
mod route;
mod rule;

use std::cell::Cell;
use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;

pub use address::Address;
pub use error::NetlinkError;
pub use filter::Filter;
pub use forwarding::Forwarding;
pub use link::{Link, Vxlan};
pub use monitor::{Change, Monitor};
pub use neighbour::Neighbour;
pub use route::{Hop, NextHop, Route};

use crate::namespace::{self, Namespace};
use error::Refusal;

/// Marks what transom has made, in the field in which routes, addresses and neighbours say who made them.
pub const PROTOCOL: u8 = 84;

/// How often a list is asked for again because something changed while it was read.
const DUMP_ATTEMPTS: usize = 5;

/// A connection to the kernel's view of one namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    namespace: Namespace,
    sequence: Cell<u32>,
    changes: Cell<u64>,
}

impl Netlink {
    /// Opens a connection to the calling thread's namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Self> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            // Both only make errors say more, and are missing in old kernels.
            _ = socket.set_ext_ack(true);
            _ = socket.set_cap_ack(true);
            Ok(Self { socket, namespace: namespace::current()?, sequence: Cell::new(0), changes: Cell::new(0) })
        };
        open().map_err(|error| Refusal::from(error).of("open a netlink socket"))
    }

    /// Opens a connection to another namespace.
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run(Self::open).map_err(|error| Refusal::from(error).of("open a netlink socket"))?
    }

    /// The namespace this is about.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// How many changes were asked for so far.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Runs `task` on a thread in this namespace: the calling one, if it is there already.
    pub fn within<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        if namespace::current()?.is(&self.namespace)? { Ok(task()) } else { self.namespace.run(task) }
    }

    /// Asks for a change and waits until the kernel has made it.
    fn change(&self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Refusal> {
        self.changes.set(self.changes.get() + 1);
        let sequence = self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.answers(sequence).map(|_| ())
    }

    /// Asks for one object.
    fn get(&self, message: RouteNetlinkMessage) -> Result<RouteNetlinkMessage, Refusal> {
        let sequence = self.send(message, NLM_F_REQUEST)?;
        let missing = || Refusal::from(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer cannot be read"));
        self.answers(sequence)?.0.pop().ok_or_else(missing)
    }

    /// Asks for all objects of a kind.
    fn dump(&self, message: &RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>, Refusal> {
        for _ in 0..DUMP_ATTEMPTS {
            let sequence = self.send(message.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
            let (objects, consistent) = self.answers(sequence)?;
            if consistent {
                return Ok(objects);
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "the list kept changing while it was read").into())
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        Ok(sequence)
    }

    /// The objects of one answer, and whether they are of one moment.
    ///
    /// What the decoder cannot read is left out: a link of a kind it has never heard of must not hide all others.
    fn answers(&self, sequence: u32) -> Result<(Vec<RouteNetlinkMessage>, bool), Refusal> {
        let (mut objects, mut consistent) = (Vec::new(), true);
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for message in Messages(&bytes) {
                let header = NetlinkBuffer::new(message);
                if header.sequence_number() != sequence {
                    continue;
                }
                consistent &= header.flags() & NLM_F_DUMP_INTR == 0;
                let multipart = header.flags() & netlink_packet_core::NLM_F_MULTIPART != 0;
                match NetlinkMessage::deserialize(message).map(|message| message.payload) {
                    Ok(NetlinkPayload::InnerMessage(object)) => objects.push(object),
                    Ok(NetlinkPayload::Error(error)) => return Refusal::check(&error).map(|()| (objects, consistent)),
                    Ok(NetlinkPayload::Done(_)) => return Ok((objects, consistent)),
                    _ => {}
                }
                if !multipart {
                    return Ok((objects, consistent));
                }
            }
        }
    }
}

/// The messages in one datagram.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = NetlinkBuffer::new_checked(self.0).ok()?.length() as usize;
        let message = &self.0[..length];
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    }
}
