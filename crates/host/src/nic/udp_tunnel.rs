//! A tunnel over UDP sockets: VXLAN or Geneve between provider addresses, without privilege.
//!
//! The kernel makes and checks the outer headers. Inner frames are cut and joined here, and cross the socket as trains of
//! datagrams, up to 64 KB in one system call each way.
//!
//! **Transport ports.** One socket receives, on the tunnel's port. Several send, each from a port of its own, and a flow
//! always takes the same one: networks and adapters spread traffic by ports, and would otherwise see one flow only.
//!
//! **Size.** As with the kernel's VXLAN, what does not fit the path is reported (EMSGSIZE) if the inner packet must not
//! be fragmented, and else is sent in outer fragments. The first needs sockets that forbid fragments, so that the kernel
//! learns and obeys the path's MTU; the second a socket of its own that allows them.

mod header;
mod receive;
mod send;
mod unfinished;

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{Ip, TunnelKind};

use super::socket;
use super::{Nic, NicError, Sender};
use receive::TunnelReceiver;
use send::TunnelSender;

/// Datagrams that the kernel may hold for us, in bytes, each way.
const BUFFER: c_int = 8 << 20;

const UDP_NO_CHECK6_RX: c_int = 102;
const PATH_MTU_NEVER_FRAGMENT: c_int = libc::IP_PMTUDISC_DO;
const PATH_MTU_FRAGMENT: c_int = libc::IP_PMTUDISC_DONT;

/// Where a tunnel ends, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpTunnelOptions {
    /// VXLAN or Geneve.
    pub kind: TunnelKind,
    /// Our provider address, which an adapter of the thread's network namespace has.
    pub local: IpAddr,
    /// The transport port of the tunnel, on both sides.
    pub port: u16,
    /// The adapter to send and receive through, whatever the routes of the machine say.
    pub adapter: Option<String>,
    /// How many sockets send; at least one.
    pub senders: usize,
}

impl UdpTunnelOptions {
    /// A tunnel with as many sending sockets as spread well, through the adapter that the machine's routes say.
    pub fn new(kind: TunnelKind, local: IpAddr, port: u16) -> Self {
        Self { kind, local, port, adapter: None, senders: 8 }
    }
}

/// An open tunnel.
#[derive(Debug)]
pub struct UdpTunnel {
    receiver: TunnelReceiver,
    sender: Arc<TunnelSender>,
}

/// How many datagrams arrived that are none of the tunnel's. It can be read while a worker has the receiver.
#[derive(Clone, Debug, Default)]
pub struct MalformedCounter(Arc<AtomicU64>);

impl MalformedCounter {
    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl UdpTunnel {
    /// Opens the sockets in the thread's network namespace.
    pub fn open(options: &UdpTunnelOptions) -> Result<Self, NicError> {
        let name = format!("{} on {}", options.kind, SocketAddr::new(options.local, options.port));
        let failed = |action| {
            let name = name.clone();
            move |error| explain(NicError::new(&name, action, error))
        };
        if options.kind == TunnelKind::Stt {
            return Err(NicError::new(&name, "open the tunnel", io::ErrorKind::Unsupported).remedy("STT does not travel in UDP"));
        }
        let receiver = open_receiver(options).map_err(failed("open the receiving socket"))?;
        let sender = open_senders(options).map_err(failed("open a sending socket"))?;
        let receiver = TunnelReceiver::new(receiver, options.kind, Ip::from(options.local), options.port);
        Ok(Self { receiver, sender: Arc::new(sender) })
    }

    /// Opens the sending half alone, for a tunnel whose datagrams somebody else receives.
    pub fn open_sender(options: &UdpTunnelOptions) -> Result<Arc<dyn Sender>, NicError> {
        let name = format!("{} on {}", options.kind, SocketAddr::new(options.local, options.port));
        let sender = open_senders(options).map_err(|error| explain(NicError::new(&name, "open a sending socket", error)))?;
        Ok(Arc::new(sender))
    }

    /// The count of datagrams that are none of the tunnel's.
    pub fn malformed(&self) -> MalformedCounter {
        self.receiver.malformed()
    }

    /// The tunnel as a NIC.
    pub fn into_nic(self) -> Nic {
        Nic { receiver: Box::new(self.receiver), sender: self.sender }
    }
}

fn open_senders(options: &UdpTunnelOptions) -> io::Result<TunnelSender> {
    let senders = (0..options.senders.max(1)).map(|_| open_sender(options, PATH_MTU_NEVER_FRAGMENT)).collect::<io::Result<Vec<_>>>()?;
    let fragmenting = open_sender(options, PATH_MTU_FRAGMENT)?;
    Ok(TunnelSender::new(senders, fragmenting, options.kind, Ip::from(options.local)))
}

fn open_receiver(options: &UdpTunnelOptions) -> io::Result<OwnedFd> {
    let socket = open_socket(options)?;
    let fd = socket.as_fd();
    socket::set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER)?;
    // Without it (before Linux 5.0) datagrams arrive one by one.
    _ = socket::set(fd, libc::SOL_UDP, libc::UDP_GRO, &1);
    if options.local.is_ipv6() {
        // Tunnels may leave the outer checksum out (RFC 6935), and many do.
        socket::set(fd, libc::SOL_UDP, UDP_NO_CHECK6_RX, &1)?;
    }
    socket::bind(fd, SocketAddr::new(options.local, options.port))?;
    Ok(socket)
}

fn open_sender(options: &UdpTunnelOptions, path_mtu: c_int) -> io::Result<OwnedFd> {
    let socket = open_socket(options)?;
    let fd = socket.as_fd();
    socket::set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, BUFFER)?;
    // Nobody has a reason to send to this port, and nobody reads what comes.
    socket::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &0)?;
    set_path_mtu(fd, options.local, path_mtu)?;
    socket::bind(fd, SocketAddr::new(options.local, 0))?;
    Ok(socket)
}

fn open_socket(options: &UdpTunnelOptions) -> io::Result<OwnedFd> {
    let domain = if options.local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = socket::open(domain, libc::SOCK_DGRAM)?;
    if let Some(adapter) = &options.adapter {
        socket::set_text(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, adapter)?;
    }
    Ok(socket)
}

fn set_path_mtu(fd: BorrowedFd<'_>, local: IpAddr, value: c_int) -> io::Result<()> {
    match local {
        IpAddr::V4(_) => socket::set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &value),
        IpAddr::V6(_) => socket::set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &value),
    }
}

fn explain(error: NicError) -> NicError {
    match error.cause.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            error.remedy("another process, or a VXLAN device of the kernel, has this port: remove that, or choose another port")
        }
        Some(libc::EADDRNOTAVAIL) => error.remedy("give the address to an adapter of this machine first"),
        Some(libc::ENODEV) => error.remedy("there is no such adapter in this network namespace; see `ip link`"),
        Some(libc::EPERM | libc::EACCES) => error.remedy("run as root, or with the capability CAP_NET_RAW"),
        _ => error,
    }
}
