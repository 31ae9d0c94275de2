//! One GET of HTTP/1.1, as much as the host agent needs: no redirects, no TLS, and an end to waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long connecting may take, and then the answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The head and the body; a machine has some hundred addresses, of a hundred bytes each.
const ANSWER_LIMIT: usize = 8 << 20;
const HEADERS_MAX: usize = 64;

/// The parts of a URL that a request is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    host: String,
    port: u16,
    target: String,
}

impl Url {
    /// Takes a URL apart; what is wrong with it is the error.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = text.strip_prefix("http://").ok_or("it does not begin with http://")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it has characters that must be percent-encoded");
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| "its port is no number up to 65535")?),
            _ => (authority, 80),
        };
        if host.is_empty() || host.contains('@') {
            return Err("it names no host, or a user");
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { host: host.to_owned(), port, target: format!("{slash}{target}") })
    }
}

/// The body of the answer to a GET, if the answer is that all is well.
pub(super) fn get(url: &Url) -> io::Result<Vec<u8>> {
    let mut stream = connect(url)?;
    let host = if url.port == 80 { url.host.clone() } else { format!("{}:{}", url.host, url.port) };
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nConnection: close\r\n\r\n", url.target);
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    stream.write_all(request.as_bytes())?;
    Answer { stream, bytes: Vec::new(), deadline: Instant::now() + TIME_LIMIT }.read()
}

fn connect(url: &Url) -> io::Result<TcpStream> {
    let host = url.host.trim_start_matches('[').trim_end_matches(']');
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIME_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn broken(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_owned())
}

/// How the end of a body is told.
#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunks,
    UntilClose,
}

/// An answer on its way in.
struct Answer<S> {
    stream: S,
    bytes: Vec<u8>,
    deadline: Instant,
}

impl Answer<TcpStream> {
    fn read(mut self) -> io::Result<Vec<u8>> {
        let length = self.read_head()?;
        match length {
            Length::Known(length) => {
                while self.bytes.len() < length {
                    self.more_or_broken()?;
                }
                self.bytes.truncate(length);
                Ok(self.bytes)
            }
            Length::UntilClose => {
                while self.more()? {}
                Ok(self.bytes)
            }
            Length::Chunks => self.read_chunks(),
        }
    }

    fn read_head(&mut self) -> io::Result<Length> {
        loop {
            if let Some((head, status, length)) = parse_head(&self.bytes)? {
                self.bytes.drain(..head);
                match status {
                    100..=199 => continue,
                    200 => return Ok(length),
                    status => return Err(io::Error::other(format!("the answer is status {status}"))),
                }
            }
            self.more_or_broken()?;
        }
    }

    fn read_chunks(mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let (head, size) = loop {
                match httparse::parse_chunk_size(&self.bytes) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) => self.more_or_broken()?,
                    Err(_) => return Err(broken("a chunk of the answer has no length")),
                }
            };
            if size == 0 {
                return Ok(body);
            }
            let size = usize::try_from(size).ok().filter(|size| *size <= ANSWER_LIMIT).ok_or_else(too_large)?;
            while self.bytes.len() < head + size + 2 {
                self.more_or_broken()?;
            }
            body.extend_from_slice(&self.bytes[head..head + size]);
            self.bytes.drain(..head + size + 2);
            if body.len() > ANSWER_LIMIT {
                return Err(too_large());
            }
        }
    }

    fn more_or_broken(&mut self) -> io::Result<()> {
        match self.more()? {
            true => Ok(()),
            false => Err(broken("the answer stops half-way")),
        }
    }

    /// Reads some more; false at the end of the connection.
    fn more(&mut self) -> io::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = [0; 16 << 10];
        let count = match self.stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            // How Unix tells that the time is up.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            other => other?,
        };
        self.bytes.extend_from_slice(&buffer[..count]);
        match self.bytes.len() > ANSWER_LIMIT {
            true => Err(too_large()),
            false => Ok(count > 0),
        }
    }
}

fn too_large() -> io::Error {
    broken("the answer is larger than 8 MiB")
}

/// The length of the head, the status and how the body ends, once the head is whole.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(usize, u16, Length)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(broken(&format!("the answer is not HTTP: {error}"))),
    };
    let value = |name: &str| {
        let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    let length = match (value("Transfer-Encoding"), value("Content-Length")) {
        (Some(coding), _) if coding.ends_with("chunked") => Length::Chunks,
        (_, Some(length)) => {
            let length = length.parse().ok().filter(|length| *length <= ANSWER_LIMIT);
            Length::Known(length.ok_or_else(|| broken("the answer has no length that makes sense"))?)
        }
        _ => Length::UntilClose,
    };
    Ok(Some((head, response.code.unwrap_or_default(), length)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What a GET gives if the server says this and hangs up.
    fn answered(text: &'static str) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/a?b=c", listener.local_addr().unwrap())).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let body = get(&url);
        assert!(server.join().unwrap().starts_with("GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:"));
        body.map(|body| String::from_utf8(body).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn bodies_end_in_three_ways() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd"), Ok("abc".into()));
        assert_eq!(answered("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nabcd"), Ok("abcd".into()));
        assert_eq!(answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n"), Ok("abcde".into()));
    }

    #[test]
    fn answers_that_are_none_are_told() {
        for (text, message) in [
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the answer is status 404"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "the answer stops half-way"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -9\r\n\r\nabc", "the answer has no length that makes sense"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "the answer has no length that makes sense"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "a chunk of the answer has no length"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n", "the answer is larger than 8 MiB"),
            ("rubbish", "the answer is not HTTP: invalid HTTP version"),
            ("", "the answer stops half-way"),
        ] {
            assert_eq!(answered(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        let url = |host: &str, port, target: &str| Ok(Url { host: host.to_owned(), port, target: target.to_owned() });
        assert_eq!(
            Url::parse("http://168.63.129.16/machine/plugins?comp=nmagent"),
            url("168.63.129.16", 80, "/machine/plugins?comp=nmagent")
        );
        assert_eq!(Url::parse("http://[::1]:8080?x#y"), url("[::1]", 8080, "/?x"));
        assert_eq!(Url::parse("http://[::1]"), url("[::1]", 80, "/"));
        for text in [
            "https://a/",
            "",
            "http://",
            "http://:80/",
            "http://a:x/",
            "http://a:70000/",
            "http://u@a/",
            "http://a/b c",
            "http://a/\r\nX: y",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
