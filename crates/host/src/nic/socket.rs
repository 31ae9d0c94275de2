//! System calls on sockets that the standard library has no function for.

// A C interface cannot be called without it; every use says why it is sound.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for a few control messages, aligned as their headers want.
#[derive(Debug)]
#[repr(C, align(8))]
pub(super) struct Control([u8; Self::LENGTH]);

impl Control {
    const LENGTH: usize = 128;
    const EMPTY: Self = Self([0; Self::LENGTH]);
}

/// A header of a control message: its length as a word of the machine, then level and type.
const HEADER: usize = size_of::<usize>() + 8;

const fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

/// A message that was received.
#[derive(Debug)]
pub(super) struct Message {
    /// How long it is.
    pub(super) length: usize,
    /// Whether it was longer than the room for it.
    pub(super) truncated: bool,
    /// Who sent it, if it came over IP.
    pub(super) source: Option<SocketAddr>,
    control: Control,
    control_length: usize,
}

impl Message {
    /// The data of a control message.
    pub(super) fn control(&self, level: c_int, kind: c_int) -> Option<&[u8]> {
        let mut rest = &self.control.0[..self.control_length.min(Control::LENGTH)];
        loop {
            let length = usize::from_ne_bytes(*rest.first_chunk()?);
            let body = rest.get(size_of::<usize>()..length)?;
            let (found, body) = (body.first_chunk::<8>()?, body.get(8..)?);
            if found[..4] == level.to_ne_bytes() && found[4..] == kind.to_ne_bytes() {
                return Some(body);
            }
            rest = rest.get(aligned(length)..)?;
        }
    }
}

/// Makes a socket that does not wait and does not outlive an `exec`.
pub(super) fn open(domain: c_int, kind: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new, so nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A value that an option of a socket can have: plain bytes for the kernel to read.
///
/// # Safety
///
/// The type has no padding, and if it holds pointers they stay valid during a call that takes a reference to it.
pub(super) unsafe trait OptionValue {}

// SAFETY: a number.
unsafe impl OptionValue for c_int {}
// SAFETY: numbers that leave no gap.
unsafe impl OptionValue for libc::packet_mreq {}

/// Sets an option.
pub(super) fn set<T: OptionValue>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    set_bytes(fd, level, name, std::ptr::from_ref(value).cast(), size_of::<T>())
}

/// Sets an option to a text.
pub(super) fn set_text(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &str) -> io::Result<()> {
    set_bytes(fd, level, name, value.as_ptr().cast(), value.len())
}

/// Lets only those frames in that this program answers a length for. It replaces the one before.
pub(super) fn set_filter(fd: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel only reads the program; its type says otherwise because it is the one of C.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    set_bytes(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), size_of::<libc::sock_fprog>())
}

fn set_bytes(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: *const c_void, length: usize) -> io::Result<()> {
    // SAFETY: the callers above give a pointer to as many bytes, which the kernel reads and does not keep.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, length as libc::socklen_t) })
}

/// Sets the size of a buffer, beyond the limit of the system if that is allowed.
pub(super) fn set_buffer(fd: BorrowedFd<'_>, forced: c_int, plain: c_int, bytes: c_int) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, forced, &bytes).or_else(|_| set(fd, libc::SOL_SOCKET, plain, &bytes))
}

/// Binds a packet socket to an adapter, and begins to receive all protocols.
pub(super) fn bind_packet(fd: BorrowedFd<'_>, index: u32, protocol: c_int) -> io::Result<()> {
    let mut address = packet_address();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index as c_int;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid and as long as said.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Which adapter a packet socket is bound to; negative if that is gone.
pub(super) fn bound_packet(fd: BorrowedFd<'_>) -> io::Result<c_int> {
    let mut address = packet_address();
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: there is as much room for the address as said.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut length) })?;
    Ok(address.sll_ifindex)
}

fn packet_address() -> libc::sockaddr_ll {
    // SAFETY: the address is numbers only, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// The address of a socket as the kernel wants it.
#[derive(Clone, Copy)]
pub(super) enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Address {
    fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Self::V4(address) => (std::ptr::from_ref(address).cast(), size_of::<libc::sockaddr_in>() as _),
            Self::V6(address) => (std::ptr::from_ref(address).cast(), size_of::<libc::sockaddr_in6>() as _),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: address.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }
}

/// Binds a socket to an address.
pub(super) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let address = Address::from(address);
    let (pointer, length) = address.parts();
    // SAFETY: the address lives on this stack and is as long as said.
    check(unsafe { libc::bind(fd.as_raw_fd(), pointer, length) })
}

/// Receives one message into `area`, with who sent it and the control messages to it.
pub(super) fn receive(fd: BorrowedFd<'_>, area: &mut [u8]) -> io::Result<Message> {
    let mut part = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
    // SAFETY: the address is numbers only, for which zeros are valid.
    let mut from: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut control = Control::EMPTY;
    // SAFETY: a message header is numbers and pointers, and null and zero are valid for them.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = Control::LENGTH as _;
    // SAFETY: all pointers in the header lead to local values or to `area`, each with its length beside it.
    let length = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let truncated = header.msg_flags & libc::MSG_TRUNC != 0;
    Ok(Message { length, truncated, source: source(&from), control, control_length: header.msg_controllen as usize })
}

fn source(from: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(from.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage is larger and aligned for every kind of address, and its family says that it is this one.
            let address = unsafe { &*std::ptr::from_ref(from).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*std::ptr::from_ref(from).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(address.sin6_port), 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Sends the parts as one datagram, or, if `segment` is given, as a train of datagrams of that length.
pub(super) fn send(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>], to: &Address, segment: Option<u16>) -> io::Result<()> {
    let mut control = Control::EMPTY;
    // SAFETY: a message header is numbers and pointers, and null and zero are valid for them.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    let (pointer, length) = to.parts();
    header.msg_name = pointer.cast_mut().cast();
    header.msg_namelen = length;
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len() as _;
    if let Some(segment) = segment {
        header.msg_controllen = write_segment(&mut control, segment) as _;
        header.msg_control = control.0.as_mut_ptr().cast();
    }
    // SAFETY: all pointers in the header lead to local values, to `to` or to `parts`, each with its length beside it; an
    // `IoSlice` has the layout of an `iovec`, and the call only reads through all of them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes the control message that asks for a train, and answers how long it is.
fn write_segment(control: &mut Control, segment: u16) -> usize {
    let length = HEADER + size_of::<u16>();
    let (word, bytes) = (size_of::<usize>(), &mut control.0);
    bytes[..word].copy_from_slice(&length.to_ne_bytes());
    bytes[word..word + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    bytes[word + 4..HEADER].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    bytes[HEADER..length].copy_from_slice(&segment.to_ne_bytes());
    aligned(length)
}
