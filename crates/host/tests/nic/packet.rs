//! Packets to send through NICs.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use wire::checksum;

/// The Ethernet addresses that tests use for their own ends.
pub(crate) const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Bits of an IPv4 header.
pub(crate) const DO_NOT_FRAGMENT: u16 = 0x4000;

/// An IPv4 packet in an Ethernet frame.
pub(crate) fn ipv4(destination: [u8; 6], protocol: u8, ends: [&str; 2], flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(((20 + payload.len()) as u16).to_be_bytes());
    header.extend([0, 1]);
    header.extend(flags.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    for end in ends {
        header.extend(end.parse::<Ipv4Addr>().expect("an address").octets());
    }
    let sum = !checksum::sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&destination[..], &OURS, &[8, 0], &header, payload].concat()
}

/// A UDP datagram without a checksum.
pub(crate) fn udp(ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len()) as u16;
    [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &length.to_be_bytes(), &[0, 0], data].concat()
}

/// An ICMP message with its checksum.
pub(crate) fn icmp_echo(kind: u8, data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0, 0x12, 0x34, 0, 1], data].concat();
    let sum = !checksum::sum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Sends bytes as a train of datagrams of this length.
pub(crate) fn send_train(socket: &UdpSocket, bytes: &[u8], length: u16, to: &str) {
    let to = SockaddrStorage::from(to.parse::<SocketAddr>().expect("an address"));
    let control = [ControlMessage::UdpGsoSegments(&length)];
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, MsgFlags::empty(), Some(&to)).expect("a train");
}
