//! One question over one socket, from inside of a network namespace.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use dns::client::{Rules, resolve_at};
use hickory_proto::rr::RecordType;
use host::namespace::Namespace;

use super::Protocol;

/// How long an answer may take. The first packet of a connection may wait for a neighbour.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a datagram is sent: one alone may be lost.
const DATAGRAMS: usize = 3;

/// How much of an answer is read.
const LIMIT: u64 = 64 << 10;

/// Where to send something.
#[derive(Clone, Debug)]
pub(super) enum Where {
    /// To an address.
    Address(SocketAddr),
    /// To what a name stands for.
    Name {
        /// The name.
        name: String,
        /// Whether its IPv6 address is meant.
        v6: bool,
        /// The port.
        port: u16,
    },
}

/// Something to be sent, and who should answer.
#[derive(Clone)]
pub(super) struct Task {
    /// From where.
    pub(super) namespace: Arc<Namespace>,
    /// How names are resolved there.
    pub(super) rules: Rules,
    /// Who is asked for them.
    pub(super) dns: SocketAddr,
    /// To where.
    pub(super) target: Where,
    /// Over what.
    pub(super) protocol: Protocol,
    /// Who may answer; anybody if it does not matter.
    pub(super) expected: Vec<String>,
}

impl Task {
    /// Sends it. Says who answered, or why nobody did.
    pub(super) async fn run(&self) -> Result<String, String> {
        let task = self.clone();
        let done = tokio::task::spawn_blocking(move || task.namespace.run(|| task.send()).map_err(|error| error.to_string())?);
        done.await.map_err(|error| error.to_string())?
    }

    fn send(&self) -> Result<String, String> {
        let address = match &self.target {
            Where::Address(address) => *address,
            Where::Name { name, v6, port } => SocketAddr::new(self.resolve(name, *v6)?, *port),
        };
        let answered = match self.protocol {
            Protocol::Tcp => ask_tcp(address),
            Protocol::Udp => ask_udp(address),
        };
        let name = answered.map_err(|error| format!("{address}: {}", cause(&error)))?;
        match self.expected.is_empty() || self.expected.contains(&name) {
            false => Err(format!("{address}: {name} answered instead of {}", self.expected.join(" or "))),
            true => Ok(format!("{name} at {address}")),
        }
    }

    fn resolve(&self, name: &str, v6: bool) -> Result<IpAddr, String> {
        let kind = if v6 { RecordType::AAAA } else { RecordType::A };
        let resolution = resolve_at(self.dns, name, &[kind], &self.rules).map_err(|error| error.to_string())?;
        let found = resolution.addresses().into_iter().find(|address| address.is_ipv6() == v6);
        found.ok_or_else(|| {
            let verdict = resolution.verdict().map_or("no answer".to_owned(), ToString::to_string);
            format!("{name}: {verdict}")
        })
    }
}

/// What an error means for people.
fn cause(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{ConnectionRefused, TimedOut, WouldBlock};
    match error.kind() {
        TimedOut | WouldBlock => format!("no answer in {} s", PATIENCE.as_secs()),
        ConnectionRefused => "refused".to_owned(),
        _ => error.to_string(),
    }
}

fn ask_tcp(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET /hostname HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.take(LIMIT).read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned());
    body.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidData, "the answer is no HTTP"))
}

fn ask_udp(address: SocketAddr) -> std::io::Result<String> {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE / DATAGRAMS as u32))?;
    let mut bytes = [0; 512];
    let mut outcome = Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
    for _ in 0..DATAGRAMS {
        socket.send(b"hostname")?;
        outcome = socket.recv(&mut bytes);
        if outcome.is_ok() {
            break;
        }
    }
    outcome.map(|length| String::from_utf8_lossy(&bytes[..length]).trim().to_owned())
}
