//! Serving the name of the machine, and nothing else.

use std::io::{self, Write};
use std::net::{Ipv6Addr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::stack;

/// Serves over raw TCP: whoever connects gets the name. Runs beside.
pub fn serve_tcp(port: u16) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)))?;
    let port = listener.local_addr()?.port();
    stack::spawn("tcp", move || {
        for stream in listener.incoming() {
            match stream {
                Ok(mut stream) => _ = stream.write_all(crate::host_name().as_bytes()),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    })?;
    Ok(port)
}

/// Serves over UDP: whoever sends something gets the name. Runs beside.
pub fn serve_udp(port: u16) -> io::Result<u16> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| UdpSocket::bind(("0.0.0.0", port)))?;
    let port = socket.local_addr()?.port();
    stack::spawn("udp", move || {
        loop {
            match socket.recv_from(&mut [0; 16]) {
                Ok((_, client)) => _ = socket.send_to(crate::host_name().as_bytes(), client),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    })?;
    Ok(port)
}
