//! ICMP echo with raw sockets.

use std::io;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::{MOMENT, PATIENCE, Place};

/// How long one request may take before the next one.
const ROUND: Duration = Duration::from_millis(300);

/// Expects an answer to a request, sooner or later.
pub(crate) fn pings(from: &Place, to: impl Into<IpAddr>) {
    let to = to.into();
    let start = Instant::now();
    while !request(from, to, 56, ROUND) {
        assert!(start.elapsed() < PATIENCE, "{} pings {to}: no answer", from.name);
    }
}

/// Whether an answer to one of two requests comes within a moment.
pub(crate) fn answers(from: &Place, to: impl Into<IpAddr>) -> bool {
    let to = to.into();
    request(from, to, 56, MOMENT) || request(from, to, 56, MOMENT)
}

/// Expects the answer to a request that carries this many bytes.
pub(crate) fn ping_sized(from: &Place, to: impl Into<IpAddr>, bytes: usize) {
    let to = to.into();
    let start = Instant::now();
    while !request(from, to, bytes, ROUND) {
        assert!(start.elapsed() < PATIENCE, "{} pings {to} with {bytes} bytes: no answer", from.name);
    }
}

fn request(from: &Place, to: IpAddr, bytes: usize, patience: Duration) -> bool {
    from.run(|| echo(to, bytes, patience)).unwrap_or(false)
}

/// Sends a request and waits for its answer.
fn echo(to: IpAddr, bytes: usize, patience: Duration) -> io::Result<bool> {
    let (family, protocol, request, reply, skipped) = match to {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8, 0, 20),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128, 129, 0),
    };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 20_000))?;
    let identifier = (socket.as_raw_fd() as u16 ^ std::process::id() as u16).to_be_bytes();
    let mut packet = vec![request, 0, 0, 0, identifier[0], identifier[1], 0, 1];
    packet.extend((0..bytes).map(|position| position as u8));
    // The kernel replaces it in ICMPv6, where it covers addresses too.
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    match to {
        IpAddr::V4(to) => sendto(socket.as_raw_fd(), &packet, &SockaddrIn::from(SocketAddrV4::new(to, 0)), MsgFlags::empty())?,
        IpAddr::V6(to) => sendto(socket.as_raw_fd(), &packet, &SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0)), MsgFlags::empty())?,
    };
    let (start, mut buffer) = (Instant::now(), vec![0; 1 << 16]);
    while start.elapsed() < patience {
        let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) else { continue };
        let message = &buffer[skipped.min(length)..length];
        if message.len() == packet.len() && message[0] == reply && message[4..] == packet[4..] {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The Internet checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
