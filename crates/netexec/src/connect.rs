//! Trying to connect, with an error that begins with one of five words.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::dial::resolve;

/// By what to connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP: the connection is opened and closed.
    #[default]
    Tcp,
    /// UDP: something is sent, and something must come back.
    Udp,
}

/// Why there is no connection, in the words that tests look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The target makes no sense.
    Unknown(String),
    /// Nobody answers.
    Timeout,
    /// The name has no address.
    Dns(String),
    /// Nobody listens.
    Refused,
    /// Something else, such as no route.
    Other(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why) => write!(f, "UNKNOWN: {why}"),
            Self::Timeout => f.write_str("TIMEOUT"),
            Self::Dns(why) => write!(f, "DNS: {why}"),
            Self::Refused => f.write_str("REFUSED"),
            Self::Other(why) => write!(f, "OTHER: {why}"),
        }
    }
}

/// Connects to a target such as `web:80`. Without a timeout the system decides how long it takes.
pub fn connect(target: &str, protocol: Protocol, timeout: Option<Duration>, data: &str) -> Result<(), Obstacle> {
    let (host, port) = target.rsplit_once(':').ok_or_else(|| Obstacle::Unknown(format!("address {target}: missing port in address")))?;
    let address = resolve(host, port).map_err(|error| Obstacle::Dns(error.to_string()))?;
    match protocol {
        Protocol::Tcp => open(address, timeout),
        Protocol::Udp => exchange(address, timeout, data),
    }
    .map_err(|error| obstacle(&error))
}

fn open(address: SocketAddr, timeout: Option<Duration>) -> io::Result<()> {
    match timeout {
        Some(timeout) => TcpStream::connect_timeout(&address, timeout),
        None => TcpStream::connect(address),
    }
    .map(drop)
}

fn exchange(address: SocketAddr, timeout: Option<Duration>, data: &str) -> io::Result<()> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(timeout)?;
    socket.connect(address)?;
    socket.send(format!("{data}\n").as_bytes())?;
    match socket.recv(&mut [0; 1024])? {
        0 => Err(io::Error::other("No data received from the server. Cannot guarantee the server received the request.")),
        _ => Ok(()),
    }
}

fn obstacle(error: &io::Error) -> Obstacle {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Obstacle::Timeout,
        ErrorKind::ConnectionRefused => Obstacle::Refused,
        _ => Obstacle::Other(error.to_string()),
    }
}
