//! Echo requests, and how many answers each gets: one, if nothing on the way is doubled.

use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

const IDENTIFIER: [u8; 2] = [0x7a, 0x11];

/// How long to wait for more answers after the first.
const PATIENCE: Duration = Duration::from_millis(200);

/// How often to ask before giving up; the first request may be lost while an address is resolved.
const ATTEMPTS: u8 = 15;

/// Whether the destination answers, and never more than once. From the calling thread's namespace.
pub(crate) fn answers_once(destination: IpAddr) -> bool {
    (0..ATTEMPTS).any(|number| match answers(destination, number) {
        0 => false,
        1 => true,
        several => panic!("{destination} answered {several} times"),
    })
}

/// Whether the destination answers the very first request.
pub(crate) fn answers_at_once(destination: IpAddr) -> bool {
    answers(destination, 99) == 1
}

fn answers(destination: IpAddr, number: u8) -> usize {
    let (family, protocol, request, reply, skipped) = match destination {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8, 0, 20),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128, 129, 0),
    };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 20_000)).unwrap();
    let mut packet = vec![request, 0, 0, 0, IDENTIFIER[0], IDENTIFIER[1], 0, number];
    packet.extend([0x55; 24]);
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    let fd = socket.as_raw_fd();
    let sent = match destination {
        IpAddr::V4(address) => sendto(fd, &packet, &SockaddrIn::from(SocketAddrV4::new(address, 0)), MsgFlags::empty()),
        IpAddr::V6(address) => sendto(fd, &packet, &SockaddrIn6::from(SocketAddrV6::new(address, 0, 0, 0)), MsgFlags::empty()),
    };
    if sent.is_err() {
        return 0;
    }
    let (mut count, mut buffer, deadline) = (0, [0; 2048], Instant::now() + PATIENCE);
    while Instant::now() < deadline {
        let Ok(length) = recv(fd, &mut buffer, MsgFlags::empty()) else {
            continue;
        };
        let message = &buffer[skipped.min(length)..length];
        count += usize::from(message.len() > 8 && message[0] == reply && message[4..8] == [IDENTIFIER[0], IDENTIFIER[1], 0, number]);
    }
    count
}

/// The Internet checksum. The kernel replaces it in ICMPv6, where it covers addresses too.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
