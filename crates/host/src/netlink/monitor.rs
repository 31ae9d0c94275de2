//! What changes in a namespace, as it changes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;

use super::error::Refusal;
use super::{Address, Link, Messages, Neighbour, NetlinkError, Route};
use crate::namespace::Namespace;

/// The kernel's groups of notifications for links, neighbours, addresses and routes (`RTNLGRP_…`).
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// Room for the burst of a link with many routes going down.
const RECEIVE_BUFFER: u32 = 1 << 20;

/// How many datagrams are read at once, so that a flood of changes cannot hold the reader.
const DATAGRAMS: usize = 1024;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A link is new or not what it was.
    Link(Link),
    /// A link is gone.
    LinkGone(Link),
    /// A link has an address, or its flags changed.
    Address(u32, Address),
    /// A link has an address no longer.
    AddressGone(u32, Address),
    /// A route is new or changed.
    Route(Route),
    /// A route is gone.
    RouteGone(Route),
    /// Something new is known of a neighbour.
    Neighbour(Neighbour),
    /// A neighbour was forgotten.
    NeighbourGone(Neighbour),
    /// More changed than could be kept: everything has to be listed anew.
    Lost,
}

/// A follower of one namespace's changes.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Follows the calling thread's namespace from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Self> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.set_non_blocking(true)?;
            // Less room is granted to the unprivileged, and loses changes sooner; that is noticed.
            _ = socket.set_rx_buf_sz(RECEIVE_BUFFER);
            GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
            Ok(Self { socket })
        };
        open().map_err(|error| Refusal::from(error).of("follow the changes of the network namespace"))
    }

    /// Follows another namespace.
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run(Self::open).map_err(|error| Refusal::from(error).of("follow the changes of the network namespace"))?
    }

    /// What changed since the last call; nothing, if nothing did. To wait for more, poll the descriptor: it stays readable while there
    /// is more.
    pub fn receive(&self) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        for _ in 0..DATAGRAMS {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => changes.extend(Messages(&bytes).filter_map(read)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changes.push(Change::Lost),
                Err(error) => return Err(error),
            }
        }
        Ok(changes)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads one message; none, if it is about something else or of a kind that is not known.
fn read(message: &[u8]) -> Option<Change> {
    let NetlinkPayload::InnerMessage(message) = NetlinkMessage::deserialize(message).ok()?.payload else {
        return None;
    };
    match message {
        RouteNetlinkMessage::NewLink(message) => Some(Change::Link(Link::read(message))),
        RouteNetlinkMessage::DelLink(message) => Some(Change::LinkGone(Link::read(message))),
        RouteNetlinkMessage::NewAddress(message) => Some(Change::Address(message.header.index, Address::read(&message)?)),
        RouteNetlinkMessage::DelAddress(message) => Some(Change::AddressGone(message.header.index, Address::read(&message)?)),
        RouteNetlinkMessage::NewRoute(message) => Route::read(message).map(Change::Route),
        RouteNetlinkMessage::DelRoute(message) => Route::read(message).map(Change::RouteGone),
        RouteNetlinkMessage::NewNeighbour(message) => Neighbour::read(message).map(Change::Neighbour),
        RouteNetlinkMessage::DelNeighbour(message) => Neighbour::read(message).map(Change::NeighbourGone),
        _ => None,
    }
}
