//! As much of HTTP/1.1 as a client of hnsd needs: one request after the other on a connection, and answers with a length,
//! in chunks, or up to the end of the connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::Address;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that rested longer than this is looked at before it is used: hnsd may have gone meanwhile.
const PROBE_AFTER: Duration = Duration::from_millis(5);
const HEAD_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 64;
/// Ten thousand documents are some ten megabytes.
const BODY_MAX: usize = 256 * 1024 * 1024;
/// The line before a chunk: a number of at most 16 digits, and extensions nobody uses.
const CHUNK_HEAD_MAX: usize = 1024;
const READ_SIZE: usize = 16 * 1024;

/// How an exchange failed, as far as it matters for doing it again.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing of the request left.
    NotSent(io::Error),
    /// The request left, and nothing of an answer came.
    NoAnswer(io::Error),
    /// The answer cannot be understood, is too large or stops half-way.
    Broken(String),
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Whether the connection may be used again.
    pub(super) keep_alive: bool,
}

/// A connection with what was read from it and not yet looked at.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
    /// How much of the buffer was looked at.
    position: usize,
    used: Instant,
}

impl Connection {
    pub(super) fn open(address: &Address) -> io::Result<Self> {
        Stream::connect(address).map(Self::over)
    }

    pub(super) fn over(stream: Stream) -> Self {
        Self { stream, buffer: Vec::new(), position: 0, used: Instant::now() }
    }

    /// Whether the connection, after a rest, can still carry a request.
    pub(super) fn is_usable(&mut self) -> bool {
        self.available().is_empty() && (self.used.elapsed() < PROBE_AFTER || self.stream.is_silent())
    }

    /// Sends a request and reads its whole answer.
    pub(super) fn exchange(&mut self, request: &[u8]) -> Result<Answer, Failure> {
        let (status, body) = self.begin(request)?;
        let keep_alive = body.keep_alive;
        let body = self.read_all(body)?;
        self.used = Instant::now();
        Ok(Answer { status, body, keep_alive })
    }

    /// Sends a request and reads the head of its answer.
    pub(super) fn begin(&mut self, request: &[u8]) -> Result<(u16, Body), Failure> {
        let sent = self.send(request);
        if let Err(failure @ Failure::NotSent(_)) = sent {
            return Err(failure);
        }
        // Even a request that could not be sent whole may have been answered: that it is too large, for example.
        match (self.read_head(), sent) {
            (Ok((status, mut body)), Err(_)) => {
                body.keep_alive = false;
                Ok((status, body))
            }
            (Err(_), Err(failure)) => Err(failure),
            (head, Ok(())) => head,
        }
    }

    /// Reads what is left of an answer.
    pub(super) fn read_all(&mut self, mut body: Body) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        while self.read_some(&mut body, &mut all)? {
            if all.len() > BODY_MAX {
                return Err(Failure::Broken(format!("the answer is larger than {} MB", BODY_MAX >> 20)));
            }
        }
        Ok(all)
    }

    /// Reads as much of an answer as there is, waiting for something; false at its end.
    pub(super) fn read_some(&mut self, body: &mut Body, into: &mut Vec<u8>) -> Result<bool, Failure> {
        match body.rest {
            Rest::Nothing => Ok(false),
            Rest::Bytes(left) => {
                body.rest = Rest::after(left - self.pour(left, into)?);
                Ok(true)
            }
            Rest::Chunk(left) => {
                body.rest = Rest::Chunk(left - self.pour(left, into)?);
                if let Rest::Chunk(0) = body.rest {
                    self.expect_line_end()?;
                    body.rest = Rest::ChunkHead;
                }
                Ok(true)
            }
            Rest::ChunkHead => {
                body.rest = match self.read_chunk_head()? {
                    0 => self.read_trailers()?,
                    length => Rest::Chunk(length),
                };
                Ok(true)
            }
            Rest::UntilClose => {
                if self.available().is_empty() && self.fill().map_err(half)? == 0 {
                    body.rest = Rest::Nothing;
                }
                into.extend_from_slice(self.available());
                self.consume(self.available().len());
                Ok(true)
            }
        }
    }

    /// A second handle on the socket, to end it with from another thread.
    pub(super) fn stream(&self) -> io::Result<Stream> {
        self.stream.try_clone()
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < request.len() {
            match self.stream.write(&request[sent..]) {
                Ok(0) => return Err(not_sent(sent, io::ErrorKind::WriteZero.into())),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(not_sent(sent, error)),
            }
        }
        Ok(())
    }

    fn read_head(&mut self) -> Result<(u16, Body), Failure> {
        loop {
            match parse_head(self.available())? {
                // An interim answer; the real one follows.
                Some((length, 100..=199, _)) => self.consume(length),
                Some((length, status, body)) => {
                    self.consume(length);
                    return Ok((status, body));
                }
                None => self.read_more_head()?,
            }
        }
    }

    fn read_more_head(&mut self) -> Result<(), Failure> {
        if self.available().len() > HEAD_MAX {
            return Err(Failure::Broken("the head of the answer has no end".into()));
        }
        let nothing_yet = self.available().is_empty();
        match self.fill() {
            Ok(0) if nothing_yet => Err(Failure::NoAnswer(io::ErrorKind::UnexpectedEof.into())),
            Ok(0) => Err(half(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) if nothing_yet => Err(Failure::NoAnswer(error)),
            Err(error) => Err(half(error)),
        }
    }

    fn read_chunk_head(&mut self) -> Result<u64, Failure> {
        loop {
            match httparse::parse_chunk_size(self.available()) {
                Ok(httparse::Status::Complete((length, size))) => {
                    self.consume(length);
                    return Ok(size);
                }
                Ok(httparse::Status::Partial) if self.available().len() <= CHUNK_HEAD_MAX => self.fill_or_half()?,
                _ => return Err(Failure::Broken("a chunk of the answer has no length".into())),
            }
        }
    }

    /// Skips the lines after the last chunk, up to an empty one.
    fn read_trailers(&mut self) -> Result<Rest, Failure> {
        let mut skipped = 0;
        loop {
            let Some(end) = self.available().iter().position(|byte| *byte == b'\n') else {
                self.fill_or_half()?;
                if self.available().len() > HEAD_MAX {
                    return Err(Failure::Broken("the trailer of the answer has no end".into()));
                }
                continue;
            };
            let empty = matches!(&self.available()[..end], b"" | b"\r");
            self.consume(end + 1);
            skipped += end + 1;
            if empty {
                return Ok(Rest::Nothing);
            }
            if skipped > HEAD_MAX {
                return Err(Failure::Broken("the trailer of the answer has no end".into()));
            }
        }
    }

    fn expect_line_end(&mut self) -> Result<(), Failure> {
        while self.available().len() < 2 {
            self.fill_or_half()?;
        }
        if !self.available().starts_with(b"\r\n") {
            return Err(Failure::Broken("a chunk of the answer is longer than it says".into()));
        }
        self.consume(2);
        Ok(())
    }

    /// Moves at most `limit` bytes of the answer, waiting for some. Says how many.
    fn pour(&mut self, limit: u64, into: &mut Vec<u8>) -> Result<u64, Failure> {
        if self.available().is_empty() {
            self.fill_or_half()?;
        }
        let count = self.available().len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        into.extend_from_slice(&self.available()[..count]);
        self.consume(count);
        Ok(count as u64)
    }

    fn available(&self) -> &[u8] {
        &self.buffer[self.position..]
    }

    fn consume(&mut self, count: usize) {
        self.position += count;
        if self.position >= self.buffer.len() {
            self.buffer.clear();
            self.position = 0;
        }
    }

    fn fill_or_half(&mut self) -> Result<(), Failure> {
        match self.fill() {
            Ok(0) => Err(half(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(half(error)),
        }
    }

    /// Reads more into the buffer; 0 at the end of the connection.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.position);
        self.position = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + READ_SIZE, 0);
        let read = loop {
            match self.stream.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(length + read.as_ref().copied().unwrap_or(0));
        read
    }
}

fn not_sent(sent: usize, error: io::Error) -> Failure {
    if sent == 0 { Failure::NotSent(error) } else { Failure::NoAnswer(error) }
}

fn half(error: io::Error) -> Failure {
    Failure::Broken(format!("the answer stops half-way: {error}"))
}

/// What is left to read of an answer.
#[derive(Debug)]
pub(super) struct Body {
    rest: Rest,
    keep_alive: bool,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    Bytes(u64),
    ChunkHead,
    Chunk(u64),
    UntilClose,
}

impl Rest {
    fn after(left: u64) -> Self {
        if left == 0 { Self::Nothing } else { Self::Bytes(left) }
    }
}

/// Length of the head, status and kind of body, once the head is whole.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, u16, Body)>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(Failure::Broken(format!("the answer is not HTTP: {error}"))),
    };
    let status = response.code.unwrap_or_default();
    let rest = if matches!(status, 204 | 304) { Rest::Nothing } else { body_of(response.headers)? };
    let closes = has_token(response.headers, "Connection", "close") || matches!(rest, Rest::UntilClose);
    let keep_alive = response.version == Some(1) && !closes;
    Ok(Some((length, status, Body { rest, keep_alive })))
}

fn body_of(headers: &[httparse::Header<'_>]) -> Result<Rest, Failure> {
    if has_token(headers, "Transfer-Encoding", "chunked") {
        return Ok(Rest::ChunkHead);
    }
    let mut lengths = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Content-Length"));
    let Some(first) = lengths.next() else {
        return Ok(Rest::UntilClose);
    };
    let length = std::str::from_utf8(first.value).ok().and_then(|text| text.trim().parse().ok());
    match length {
        Some(length) if lengths.all(|other| other.value == first.value) => Ok(Rest::after(length)),
        _ => Err(Failure::Broken("the answer has no clear length".into())),
    }
}

fn has_token(headers: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    let values = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    values.flat_map(|header| header.value.split(|byte| *byte == b',')).any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// A socket of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn connect(address: &Address) -> io::Result<Self> {
        match address {
            #[cfg(unix)]
            Address::Unix(path) => connect_unix(path).map(Self::Unix),
            Address::Tcp { address, .. } => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
                // Requests go out in one write; waiting for more to send would only delay them.
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Whether the other side neither said anything nor hung up: how a connection should be between two requests.
    fn is_silent(&mut self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => {
                use nix::sys::socket::{MsgFlags, recv};
                let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
                matches!(recv(stream.as_raw_fd(), &mut [0u8; 1], flags), Err(nix::errno::Errno::EAGAIN))
            }
            Self::Tcp(stream) => {
                let silent = |stream: &TcpStream| {
                    stream.set_nonblocking(true)?;
                    let peeked = stream.peek(&mut [0u8; 1]);
                    stream.set_nonblocking(false)?;
                    Ok::<bool, io::Error>(matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock))
                };
                silent(stream).unwrap_or(false)
            }
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Ends the connection; whoever waits for something to come sees its end.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        }
    }
}

/// Connects within the time limit. The system waits while the other side's queue is full, for as long as it would wait
/// for room to send, so the limit is set there for the time of connecting.
#[cfg(unix)]
fn connect_unix(path: &std::path::Path) -> io::Result<UnixStream> {
    use nix::errno::Errno;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
    use nix::sys::time::TimeVal;
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(CONNECT_TIMEOUT.as_secs().cast_signed(), 0))?;
    let address = UnixAddr::new(path)?;
    loop {
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => break,
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(0, 0))?;
    Ok(socket.into())
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.flush(),
            Self::Tcp(stream) => stream.flush(),
        }
    }
}
