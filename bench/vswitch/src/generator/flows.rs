//! Many flows at once: datagrams between many pairs of ports.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::{PORTS, ports};

/// The first port that datagrams come from, and how many there are. The ports are always the same, so that whoever sends again meets flows
/// that are known.
const SOURCE: u16 = 30_000;
const SOURCES: u16 = 6250;

/// How many pairs of ports that makes: each is a flow, and its answers are another.
pub(crate) const FLOWS: u32 = SOURCES as u32 * PORTS as u32;

/// How long an answer may take, and how often it is asked for. Somebody else may have the processor meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
const ATTEMPTS: usize = 25;

/// Answers datagrams with what they carry, at all ports of servers.
pub(super) fn answer() -> io::Result<()> {
    let sockets = ports().map(|port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))).collect::<io::Result<Vec<_>>>()?;
    println!("ready");
    // A thread that waits costs nothing, and waiting for one socket is one system call less than asking which of them has something.
    let threads: Vec<_> = sockets.into_iter().map(|socket| thread::spawn(move || answer_at(&socket))).collect();
    threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a server failed"))))
}

fn answer_at(socket: &UdpSocket) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        // A client that is gone is the client's affair.
        _ = socket.send_to(&buffer[..length], from);
    }
}

/// Sends a datagram from every source to every port of the server, and waits for the answers.
pub(super) fn open(server: Ipv4Addr) -> io::Result<()> {
    (SOURCE..SOURCE + SOURCES).try_for_each(|source| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, source))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        open_from(&socket, server)
    })
}

fn open_from(socket: &UdpSocket, server: Ipv4Addr) -> io::Result<()> {
    let mut missing: HashSet<SocketAddr> = ports().map(|port| SocketAddr::from((server, port))).collect();
    for _ in 0..ATTEMPTS {
        for port in &missing {
            socket.send_to(&[1], port)?;
        }
        while !missing.is_empty() {
            match socket.recv_from(&mut [0; 64]) {
                Ok((_, from)) => drop(missing.remove(&from)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(error),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, format!("{} flows were not answered", missing.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_as_many_as_they_say() {
        assert_eq!(FLOWS, 100_000);
        assert!(SOURCE.checked_add(SOURCES).is_some() && !(SOURCE..SOURCE + SOURCES).contains(&ports().start));
    }

    #[test]
    fn every_port_is_answered() {
        let servers: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for server in servers {
            let port = server.local_addr().unwrap();
            thread::spawn(move || answer_at(&server));
            client.send_to(&[7, 8], port).unwrap();
            let mut buffer = [0; 8];
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (2, port));
            assert_eq!(buffer[..2], [7, 8]);
        }
    }
}
