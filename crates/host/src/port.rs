//! Which transport ports sockets of the machine have.

use std::net::{Ipv4Addr, SocketAddrV4};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};

/// Whether a socket has this port. `protocol` is the IP protocol number; only TCP and UDP can be told.
///
/// The port is asked for and given back at once; nobody can connect to it meanwhile because nothing listens.
pub fn in_use(protocol: u8, port: u16) -> bool {
    let kind = match protocol {
        6 => SockType::Stream,
        17 => SockType::Datagram,
        _ => return false,
    };
    let Ok(probe) = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None) else {
        return false;
    };
    if kind == SockType::Stream {
        // Connections that are closing do not hold the port.
        _ = setsockopt(&probe, sockopt::ReuseAddr, &true);
    }
    let address = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
    bind(std::os::fd::AsRawFd::as_raw_fd(&probe), &address) == Err(nix::errno::Errno::EADDRINUSE)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_listener_has_its_port_and_gives_it_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(in_use(6, port));
        drop(listener);
        assert!(!in_use(6, port));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(in_use(17, socket.local_addr().unwrap().port()));
    }
}
