//! Asking other servers, for `/dial`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::http::{Answer, Request};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than this is no answer that is meant for a test.
const ANSWER_LIMIT: u64 = 1 << 20;

/// Asks as often as the request says, and tells what was answered.
pub fn answer(request: &Request) -> Answer {
    let tries = match request.parameter("tries") {
        "" => 1,
        text => match text.parse::<u32>() {
            Ok(tries) => tries,
            Err(error) => return Answer::new(400, format!("tries parameter is invalid. {error}\n")),
        },
    };
    let what = request.parameter("request");
    if what.is_empty() {
        return Answer::new(400, "request parameter not specified.\n");
    }
    let ask: fn(&str, SocketAddr) -> io::Result<String> = match request.parameter("protocol").to_ascii_lowercase().as_str() {
        "" | "http" => ask_http,
        "udp" => ask_udp,
        other => return Answer::new(400, format!("unsupported protocol. {other}\n")),
    };
    match resolve(request.parameter("host"), request.parameter("port")) {
        Ok(address) => report((0..tries).map(|_| ask(what, address))),
        Err(error) => Answer::new(400, format!("host and/or port param are invalid. {error}\n")),
    }
}

/// The first address of a host.
pub fn resolve(host: &str, port: &str) -> io::Result<SocketAddr> {
    let port: u16 = port.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{port:?} is no port: {error}")))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
}

fn report<E: fmt::Display>(results: impl Iterator<Item = Result<String, E>>) -> Answer {
    let (mut responses, mut errors) = (Vec::new(), Vec::new());
    results.for_each(|result| match result {
        Ok(response) => responses.push(response),
        Err(error) => errors.push(error.to_string()),
    });
    let mut record = Map::new();
    if !responses.is_empty() {
        record.insert("responses".into(), json!(responses));
    }
    if !errors.is_empty() {
        record.insert("errors".into(), json!(errors));
    }
    Answer::text(Value::Object(record).to_string())
}

/// Asks for a path, and gives the body of the answer, whatever its status.
pub fn ask_http(path: &str, address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET /{} HTTP/1.0\r\nHost: {address}\r\n\r\n", path.trim_start_matches('/').replace(char::is_whitespace, "%20"))?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LIMIT).read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |end| end + 4);
    if !answer.starts_with(b"HTTP/1.") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is no HTTP"));
    }
    Ok(String::from_utf8_lossy(&answer[head..]).into_owned())
}

/// Sends a command, and gives the first answer.
pub fn ask_udp(command: &str, address: SocketAddr) -> io::Result<String> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(command.as_bytes())?;
    let mut bytes = [0; 2048];
    let count = socket.recv(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}
