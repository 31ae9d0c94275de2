//! Asking one server one question, and waiting for the answer.
//!
//! The sockets are those of the calling thread, and so of the network namespace it is in: who wants to know what a pod is told goes there first.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hickory_proto::op::Message;
use hickory_proto::rr::{Name, RecordType};

use crate::forward::any_address_for;
use crate::message;

/// How long one try takes.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a datagram is sent. Some get lost.
const TRIES: usize = 2;

/// Asks a server: over UDP, and over TCP if the answer is too long for it.
pub fn ask(server: SocketAddr, name: &Name, kind: RecordType) -> io::Result<Message> {
    let query = message::query(name, kind);
    let mut outcome = over_udp(server, &query);
    for _ in 1..TRIES {
        match &outcome {
            Err(error) if is_late(error) => outcome = over_udp(server, &query),
            _ => break,
        }
    }
    match outcome {
        Ok(answer) if answer.metadata.truncation => over_tcp(server, &query),
        Err(error) if is_late(&error) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("{server} did not answer within {} s", PATIENCE.as_secs())))
        }
        outcome => outcome,
    }
}

/// A socket whose time is over says so differently on Unix and on Windows.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn over_udp(server: SocketAddr, query: &Message) -> io::Result<Message> {
    let socket = UdpSocket::bind(any_address_for(server))?;
    socket.connect(server)?;
    socket.send(&message::encode(query)?)?;
    let mut buffer = vec![0; message::LARGEST_MESSAGE];
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = socket.recv(&mut buffer)?;
        if let Some(answer) = message::decode(&buffer[..length]).ok().filter(|answer| message::is_answer_to(answer, query)) {
            return Ok(answer);
        }
    }
}

fn over_tcp(server: SocketAddr, query: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let bytes = message::encode(query)?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &bytes].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut buffer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut buffer)?;
    let answer = message::decode(&buffer)?;
    match message::is_answer_to(&answer, query) {
        true => Ok(answer),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is to another question")),
    }
}
