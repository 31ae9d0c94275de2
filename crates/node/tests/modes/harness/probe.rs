//! What a program in one place sees when it talks to the service in another.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::serve::{self, GREETING, PORT};
use super::{MEGABYTES, MOMENT, PATIENCE, Place};

/// The first datagram to somebody new may wait for neighbours to be found, so some are asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// Exchanges megabytes over TCP both ways with the service at an address, checks every byte, and answers what the service sees as the client.
pub(crate) fn tcp(from: &Place, to: impl Into<IpAddr>) -> SocketAddr {
    exchange(from, SocketAddr::new(to.into(), PORT), MEGABYTES)
}

/// As [`tcp`], with any port and any amount.
pub(crate) fn exchange(from: &Place, to: SocketAddr, bytes: usize) -> SocketAddr {
    let seen = from.run(|| try_exchange(to, bytes));
    seen.unwrap_or_else(|error| panic!("{} exchanges {bytes} bytes with {to} over TCP: {error}", from.name))
}

fn try_exchange(to: SocketAddr, bytes: usize) -> io::Result<SocketAddr> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    talk(stream, bytes, bytes)
}

/// The client's side of a conversation with the service.
pub(crate) fn talk(mut stream: TcpStream, up: usize, down: usize) -> io::Result<SocketAddr> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut greeting = [0; GREETING];
    stream.read_exact(&mut greeting)?;
    let seed = 0x5eed_0000 + u64::from(stream.local_addr()?.port());
    let numbers = [up as u64, down as u64, seed].map(u64::to_be_bytes);
    stream.write_all(&numbers.concat())?;
    let mut writer = stream.try_clone()?;
    let received = thread::scope(|scope| {
        let sender = scope.spawn(move || serve::send_stream(&mut writer, up, seed));
        let received = serve::check_stream(&mut stream, down, !seed);
        sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
        received
    })?;
    let mut verdict = [0];
    stream.read_exact(&mut verdict)?;
    match (received, verdict) {
        (true, [1]) => serve::read_greeting(&greeting).ok_or_else(|| io::Error::other("the greeting cannot be read")),
        (false, _) => Err(io::Error::other("what came back is not what was sent")),
        (true, _) => Err(io::Error::other("what arrived is not what was sent")),
    }
}

/// Who answers at an address over TCP, and what it sees as the client.
pub(crate) fn meet(from: &Place, to: SocketAddr) -> io::Result<(String, SocketAddr)> {
    let mut stream = from.run(|| TcpStream::connect_timeout(&to, PATIENCE))?;
    greet(&mut stream)
}

/// Who answers at an address over TCP, if somebody does soon.
pub(crate) fn meet_soon(from: &Place, to: SocketAddr) -> io::Result<String> {
    let mut stream = connect_soon(from, to)?;
    greet_within(&mut stream, MOMENT).map(|(name, _)| name)
}

/// A connection, if there is one soon.
pub(crate) fn connect_soon(from: &Place, to: SocketAddr) -> io::Result<TcpStream> {
    from.run(|| TcpStream::connect_timeout(&to, MOMENT))
}

/// Reads the greeting of a connection that was just made.
pub(crate) fn greet(stream: &mut TcpStream) -> io::Result<(String, SocketAddr)> {
    greet_within(stream, PATIENCE)
}

fn greet_within(stream: &mut TcpStream, limit: Duration) -> io::Result<(String, SocketAddr)> {
    stream.set_read_timeout(Some(limit))?;
    let mut greeting = [0; GREETING];
    stream.read_exact(&mut greeting)?;
    let unreadable = || io::Error::other("the greeting cannot be read");
    Ok((serve::read_name(&greeting).ok_or_else(unreadable)?, serve::read_greeting(&greeting).ok_or_else(unreadable)?))
}

/// Who answers at an address over UDP, and what it sees as the client.
pub(crate) fn meet_udp(from: &Place, to: SocketAddr) -> io::Result<(String, SocketAddr)> {
    let socket = from.run(|| socket_like(to))?;
    socket.set_read_timeout(Some(ASK_AGAIN))?;
    let start = Instant::now();
    loop {
        let mut answer = [0; GREETING];
        match socket.send(&[]).and_then(|_| socket.recv(&mut answer)) {
            Ok(_) => {
                let unreadable = || io::Error::other("the greeting cannot be read");
                return Ok((serve::read_name(&answer).ok_or_else(unreadable)?, serve::read_greeting(&answer).ok_or_else(unreadable)?));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {}
            Err(error) => return Err(error),
        }
    }
}

/// Exchanges a datagram of this many bytes with the service at an address, and answers what the service sees as the client.
pub(crate) fn udp(from: &Place, to: impl Into<IpAddr>, bytes: usize) -> SocketAddr {
    let to = SocketAddr::new(to.into(), PORT);
    try_udp(from, to, bytes).unwrap_or_else(|| panic!("{} gets no answer to {bytes} bytes from {to} over UDP", from.name))
}

/// As [`udp`], answering nothing if there is no answer.
pub(crate) fn try_udp(from: &Place, to: SocketAddr, bytes: usize) -> Option<SocketAddr> {
    ask(&from.run(|| socket_like(to)).ok()?, bytes)
}

/// Exchanges a datagram of this many bytes with the service that a socket is connected to.
pub(crate) fn ask(socket: &UdpSocket, bytes: usize) -> Option<SocketAddr> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match exchange_datagrams(socket, bytes, ASK_AGAIN) {
            Ok(seen_as) => return seen_as,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // A path that turns out to be narrower is an error of one datagram.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    None
}

/// As [`ask`], without asking again: whatever is lost on the way is lost.
pub(crate) fn ask_once(socket: &UdpSocket, bytes: usize) -> Option<SocketAddr> {
    exchange_datagrams(socket, bytes, PATIENCE).ok()?
}

fn exchange_datagrams(socket: &UdpSocket, bytes: usize, patience: Duration) -> io::Result<Option<SocketAddr>> {
    let question: Vec<u8> = (0..bytes).map(|position| (position % 251) as u8).collect();
    let mut answer = vec![0; 1 << 16];
    socket.set_read_timeout(Some(patience))?;
    socket.send(&question)?;
    let length = socket.recv(&mut answer)?;
    assert!(answer[GREETING..length] == question, "the answer is something else");
    Ok(serve::read_greeting(&answer[..length]))
}

/// A socket that is connected to an address.
pub(crate) fn socket_like(to: SocketAddr) -> io::Result<UdpSocket> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket)
}

/// Whether there is no way to the service at an address: nobody answers within a moment.
pub(crate) fn refused(from: &Place, to: impl Into<IpAddr>) -> bool {
    let to = SocketAddr::new(to.into(), PORT);
    from.run(|| TcpStream::connect_timeout(&to, MOMENT).is_err())
}

/// Sends datagrams that must not be cut and are too large for the path, and expects to be told so.
pub(crate) fn learns_of_narrow_path(from: &Place, to: IpAddr) {
    let socket = from.run(|| socket_like(SocketAddr::new(to, PORT))).expect("a socket");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match socket.send(&[0; 1400]) {
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32) => return,
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("{} is not told that the path to {to} is narrow", from.name);
}

/// What a server in the same place answers to `GET`: whether all is well, and the text. Nothing, if it does not answer soon.
pub(crate) fn get(place: &Place, at: SocketAddr, path: &str) -> (bool, String) {
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    let answer = place.run(ask).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (answer.starts_with("HTTP/1.1 200"), body)
}
