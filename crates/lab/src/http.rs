//! The least of an HTTP client: one GET on a connection of its own, from inside of a network namespace.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use host::namespace::Namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// How long an answer may take where nobody says.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How much of an answer is read.
const LIMIT: u64 = 1 << 20;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: u16,
    /// Its body.
    pub(crate) body: String,
}

/// Asks a server, from a namespace.
pub(crate) async fn get_in(namespace: &Namespace, address: &str, path: &str) -> io::Result<Answer> {
    let address: SocketAddr = address.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    timeout(PATIENCE, async { get_with(connect_in(namespace, address).await?, &address.to_string(), path, &[]).await }).await?
}

/// Connects from a namespace: a socket belongs to the one that it was made in.
pub(crate) async fn connect_in(namespace: &Namespace, address: SocketAddr) -> io::Result<TcpStream> {
    let make = || if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    namespace.run(make)??.connect(address).await
}

/// Asks on a connection, with headers besides the usual ones or instead of them.
pub(crate) async fn get_with(mut stream: TcpStream, host: &str, path: &str, headers: &[(&str, &str)]) -> io::Result<Answer> {
    let request = request(host, path, headers);
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(LIMIT).read_to_end(&mut bytes).await?;
    read(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is no HTTP"))
}

fn request(host: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("GET {path} HTTP/1.0\r\n");
    let usual = [("Host", host), ("User-Agent", "transom-lab"), ("Connection", "close")];
    let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    for (name, value) in usual.iter().filter(|(name, _)| !is_given(name)).chain(headers) {
        // What a manifest gives must not become a header of its own.
        let line: String = format!("{name}: {value}").chars().filter(|character| !character.is_control()).collect();
        text.push_str(&line);
        text.push_str("\r\n");
    }
    text + "\r\n"
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_added_or_take_the_place_of_the_usual_ones() {
        let text = request("a:80", "/x", &[("host", "b"), ("X", "1\r\nEvil: 2")]);
        assert_eq!(text, "GET /x HTTP/1.0\r\nUser-Agent: transom-lab\r\nConnection: close\r\nhost: b\r\nX: 1Evil: 2\r\n\r\n");
    }

    #[test]
    fn answers_are_read_and_garbage_is_not() {
        let answer = read(b"HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nnothing").expect("an answer");
        assert_eq!((answer.status, answer.body.as_str()), (404, "nothing"));
        assert!(read(b"").is_none() && read(b"HTTP/1.1\r\n\r\n").is_none() && read(b"x y z\r\n\r\n").is_none());
    }
}
