//! The simplest switch there can be: what comes in at an adapter goes out at a TAP, and the other way round.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const IFF_TAP: i16 = 0x0002;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;

/// Checksums, and TCP segments over IPv4 and IPv6.
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04;

const PACKET_VNET_HDR: c_int = 15;
const PACKET_IGNORE_OUTGOING: c_int = 23;

/// The longest frame with its virtio header.
const FRAME: usize = 70_000;

/// Makes a TAP that lives as long as the file.
pub(crate) fn tap(name: &str) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    // SAFETY: the descriptor is open, and the request is an ifreq that the kernel reads and writes.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) });
    // SAFETY: the descriptor is a TAP's, and this request takes a plain number.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, OFFLOADS) });
    file
}

/// A packet socket for everything that arrives at a link.
pub(crate) fn packet_socket(index: u32) -> File {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) });
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    for option in [PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING] {
        let one: c_int = 1;
        // SAFETY: the pointer is to an int, and the length is its size.
        check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const one).cast(), 4) });
    }
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the pointer is to a sockaddr_ll, and the length is its size.
    check(unsafe { libc::bind(fd, (&raw const address).cast(), length) });
    file
}

/// Forwards between two files until the process ends.
pub(crate) fn forward(one: &File, other: &File) {
    pump(one.try_clone().unwrap(), other.try_clone().unwrap());
    pump(other.try_clone().unwrap(), one.try_clone().unwrap());
}

fn pump(mut from: File, mut to: File) {
    thread::spawn(move || {
        let mut frame = vec![0; FRAME];
        loop {
            match from.read(&mut frame) {
                // A link that is down for a moment drops frames; a file that is a TAP no more says nothing useful.
                Ok(length) => _ = to.write(&frame[..length]),
                Err(_) => thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    });
}

fn check(result: c_int) -> c_int {
    assert!(result >= 0, "{}", std::io::Error::last_os_error());
    result
}
