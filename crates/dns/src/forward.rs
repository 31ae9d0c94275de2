//! Asking others for the names that are not ours.
//!
//! Servers are asked in their order, beginning with the one that answered last, so that one that is gone costs time once. What a server says
//! is handed on, unless it says that it cannot: then the next may.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::message;

/// How long one server may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long all of them together may take. Clients wait for about five seconds, and should hear why there is no answer.
const WHOLE_PATIENCE: Duration = Duration::from_millis(4500);

/// How many questions may be under way. Each holds a socket.
const LARGEST_CROWD: usize = 1000;

/// The port of servers that are named without one.
pub const PORT: u16 = 53;

/// Who is asked.
#[derive(Debug)]
pub struct Forwarder {
    servers: Vec<SocketAddr>,
    /// The one that answered last.
    first: AtomicUsize,
    places: Semaphore,
}

/// Why there is no answer from outside.
#[derive(Debug)]
pub enum ForwardError {
    /// There is nobody to ask.
    Nobody,
    /// Too many questions are under way.
    Crowded,
    /// Nobody answered; what happened at the last one.
    Silent(io::Error),
}

impl std::fmt::Display for ForwardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody => f.write_str("there is no server to forward to; name one with --forward"),
            Self::Crowded => write!(f, "{LARGEST_CROWD} questions are under way already"),
            Self::Silent(error) => write!(f, "no server answered: {error}"),
        }
    }
}

impl std::error::Error for ForwardError {}

impl Forwarder {
    /// Asks these servers; with none, every question is refused.
    pub fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, first: AtomicUsize::new(0), places: Semaphore::new(LARGEST_CROWD) }
    }

    /// Who is asked.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.servers
    }

    /// Asks for a name on behalf of a client.
    pub async fn ask(&self, client: &Message, name: &Name, kind: RecordType) -> Result<Message, ForwardError> {
        if self.servers.is_empty() {
            return Err(ForwardError::Nobody);
        }
        let _place = self.places.try_acquire().map_err(|_| ForwardError::Crowded)?;
        let asking = self.ask_all(client, name, kind);
        let late = || ForwardError::Silent(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
        timeout(WHOLE_PATIENCE, asking).await.unwrap_or_else(|_| Err(late()))
    }

    async fn ask_all(&self, client: &Message, name: &Name, kind: RecordType) -> Result<Message, ForwardError> {
        let (count, first) = (self.servers.len(), self.first.load(Ordering::Relaxed));
        let mut outcome = Err(ForwardError::Nobody);
        for index in (0..count).map(|step| (first + step) % count) {
            match exchange(self.servers[index], &query_for(client, name, kind)).await {
                Ok(answer) if !has_declined(&answer) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(answer) => outcome = Ok(answer),
                Err(error) => {
                    tracing::debug!(server = %self.servers[index], %name, %error, "a server did not answer");
                    // That another said no is worth more to the client than that this one said nothing.
                    outcome = outcome.or(Err(ForwardError::Silent(error)));
                }
            }
        }
        outcome
    }
}

fn has_declined(answer: &Message) -> bool {
    matches!(answer.metadata.response_code, ResponseCode::ServFail | ResponseCode::Refused | ResponseCode::NotImp)
}

/// The query we ask: what the client wants to know, in our own name.
fn query_for(client: &Message, name: &Name, kind: RecordType) -> Message {
    let mut query = message::query(name, kind);
    query.metadata.recursion_desired = client.metadata.recursion_desired;
    query.metadata.checking_disabled = client.metadata.checking_disabled;
    if let (Some(ours), Some(theirs)) = (&mut query.edns, &client.edns) {
        ours.set_dnssec_ok(theirs.flags().dnssec_ok);
    }
    query
}

/// Asks one server: over UDP, and over TCP if the answer is too long for it.
async fn exchange(server: SocketAddr, query: &Message) -> io::Result<Message> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("{server} did not answer within {} s", PATIENCE.as_secs()));
    let answer = timeout(PATIENCE, over_udp(server, query)).await.map_err(late)??;
    match answer.metadata.truncation {
        // What fitted is better than nothing, if TCP is closed.
        true => Ok(timeout(PATIENCE, over_tcp(server, query)).await.ok().and_then(Result::ok).unwrap_or(answer)),
        false => Ok(answer),
    }
}

/// Every query has a socket of its own, and so a port that nobody can guess.
async fn over_udp(server: SocketAddr, query: &Message) -> io::Result<Message> {
    let socket = UdpSocket::bind(any_address_for(server)).await?;
    socket.connect(server).await?;
    socket.send(&message::encode(query)?).await?;
    let mut buffer = vec![0; message::LARGEST_MESSAGE];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Something else may be somebody who guesses. The true answer may still come.
        if let Some(answer) = message::decode(&buffer[..length]).ok().filter(|answer| message::is_answer_to(answer, query)) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let bytes = message::encode(query)?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &bytes].concat()).await?;
    let mut buffer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut buffer).await?;
    let answer = message::decode(&buffer)?;
    match message::is_answer_to(&answer, query) {
        true => Ok(answer),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is to another question")),
    }
}

/// Any address of the family that a server's address is of.
pub(crate) fn any_address_for(server: SocketAddr) -> SocketAddr {
    let ip = if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    SocketAddr::new(ip, 0)
}

/// The servers that a file such as `/etc/resolv.conf` names. What it says wrongly is passed over, as every resolver does.
pub fn read_servers(path: &Path) -> io::Result<Vec<SocketAddr>> {
    Ok(servers_in(&fs::read_to_string(path)?))
}

fn servers_in(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver")?;
        words.next()?.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, PORT))
    };
    text.lines().filter_map(server).collect()
}

/// Reads a server as people write it: an address, or an address and a port.
pub fn parse_server(text: &str) -> Option<SocketAddr> {
    let alone = || text.trim_start_matches('[').trim_end_matches(']').parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    text.parse().ok().or_else(alone)
}

/// Whether asking this server would be asking ourselves, if we listen on these addresses.
pub fn is_ourselves(server: SocketAddr, listen: &[SocketAddr]) -> bool {
    let is_same = |own: &SocketAddr| own.ip() == server.ip() || own.ip().is_unspecified() && server.ip().is_loopback();
    listen.iter().any(|own| own.port() == server.port() && is_same(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address and a port")
    }

    #[test]
    fn servers_are_read_as_resolvers_read_them() {
        let text = "# made by hand\nsearch a b\nnameserver 10.0.0.1\n nameserver\tfd00::1 # second\nnameserver x\noptions ndots:5\nnameservers 1.1.1.1\n";
        assert_eq!(servers_in(text), [at("10.0.0.1:53"), at("[fd00::1]:53")]);
    }

    #[test]
    fn a_server_may_have_a_port() {
        let table = [
            ("10.0.0.1", Some("10.0.0.1:53")),
            ("10.0.0.1:5353", Some("10.0.0.1:5353")),
            ("fd00::1", Some("[fd00::1]:53")),
            ("[fd00::1]", Some("[fd00::1]:53")),
            ("[fd00::1]:5353", Some("[fd00::1]:5353")),
            ("dns.example", None),
            ("10.0.0.1:", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_server(text), expected.map(at), "{text}");
        }
    }

    #[test]
    fn asking_ourselves_is_noticed() {
        let table = [
            ("127.0.0.1:53", "0.0.0.0:53", true),
            ("127.0.0.53:53", "[::]:53", true),
            ("10.0.0.1:53", "10.0.0.1:53", true),
            ("10.0.0.1:53", "10.0.0.1:5353", false),
            ("10.0.0.1:53", "0.0.0.0:53", false),
        ];
        for (server, own, expected) in table {
            assert_eq!(is_ourselves(at(server), &[at(own)]), expected, "{server} {own}");
        }
    }
}
